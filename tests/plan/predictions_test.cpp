// Layers of multi-token prediction under Megatron: the closed form held to the replay, what they
// compute and hold, and a layer of theirs held to one of the decoder's.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/graph/lower.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

struct Sizes {
  std::int64_t layers = 4;
  std::int64_t predictions = 1;
};

std::string dense(const Sizes& sizes, const std::string& training,
                  const std::string& parallelism = "", int ranks = 1) {
  return test::Text() << "model: {layers: " << sizes.layers
                      << ", hidden_size: 512, heads: 8, kv_heads: 4, ffn_size: 1024, vocab_size: "
                         "5120, activation: swiglu, norm: rmsnorm, mtp_num_layers: "
                      << sizes.predictions << "}\n"
                      << "training: {seq_len: 512, precision: megatron, " << training << "}\n"
                      << (parallelism.empty() ? "" : "parallelism: {" + parallelism + "}\n")
                      << "hardware: {gpu: h100-sxm-80gb, count: " << ranks << "}\n";
}

class Specs : test::Draws {
 public:
  using Draws::Draws;

  std::string draw() {
    const int tensor = one_of(1, 2);
    const int data = one_of(1, 2, 4);
    const std::string parallelism =
        "data: " + std::to_string(data) + ", distributed_optimizer: true" +
        (tensor == 1 ? "" : ", tensor: 2, sequence: " + std::string(one_of("true", "false")));
    return dense({one_of(1, 2, 5), one_of(1, 1, 2)},
                 test::Text() << "micro_batch: " << one_of(1, 2, 3) << ", gradient_accumulation: "
                              << one_of(1, 2) << ", recompute: " << one_of("none", "none", "full")
                              << ", implementation: {name: megatron, layers: "
                              << one_of("local", "te", "te, loss: te") << "}",
                 parallelism, data * tensor);
  }
};

JobEstimate estimate_of(const std::string& spec) { return estimate_job(test::job_from(spec)); }

std::int64_t executed(const std::string& spec) {
  return narrow_to_int64(std::get<FlopsEstimate>(estimate_of(spec).flops).executed().value());
}

std::int64_t parameters(const std::string& spec) { return estimate_of(spec).parameters.total; }

/// Parameters of the stages that a rank of `layout` has.
std::int64_t held(const std::string& spec, const std::vector<ModelPart>& parts) {
  const Job job = test::job_from(spec);
  LoweringPolicy policy = policy_of(*job.training, kHopper);
  policy.parts = parts;
  const auto graph = lower(job.model, policy);
  std::int64_t elements = 0;
  for (const ParameterTensor& tensor : std::get<Graph>(graph).parameters.parameters) {
    std::int64_t of_tensor = tensor.count;
    for (const std::int64_t extent : tensor.shape) of_tensor *= extent;
    elements += of_tensor;
  }
  return elements;
}

constexpr const char* kTe = "micro_batch: 1, implementation: megatron";

Graph graph_of(const std::string& spec) {
  const Job job = test::job_from(spec);
  return std::get<Graph>(lower(job.model, policy_of(*job.training, kHopper)));
}

TEST_CASE("a layer of prediction is captured in the parts that the decoder's layers are") {
  const Graph graph = graph_of(dense({4, 1}, kTe));
  const auto block_named = [&graph](std::string_view name) {
    return *std::ranges::find(graph.blocks, name, &Block::name);
  };
  const Block layer = block_named("layer");
  const Block head = block_named("head");
  REQUIRE(layer.captured_parts.size() == 2);
  REQUIRE(head.captured_parts.size() == 2);
  // The embeddings, norms and product in front are not.
  const std::size_t front = head.captured_parts.front().begin;
  REQUIRE(front > 0);
  CHECK(head.ops[front - 1].name == "eh_proj");
  for (std::size_t i = 0; i < 2; ++i) {
    const CapturedPart& of_layer = layer.captured_parts[i];
    const CapturedPart& of_head = head.captured_parts[i];
    CHECK(of_head.scope == of_layer.scope);
    CHECK(of_head.end - of_head.begin == of_layer.end - of_layer.begin);
  }
}

TEST_CASE(
    "with a layer of prediction the closed form is the replay without rounding, to 0.2 %, with two "
    "to 2 %") {
  constexpr int kJobs = 60;
  Specs specs(1);
  for (int i = 0; i < kJobs; ++i) {
    const std::string spec = specs.draw();
    INFO(spec);
    const bool one = spec.find("mtp_num_layers: 1") != std::string::npos;
    CHECK(test::distance_of(test::job_from(spec)) <= (one ? 0.002 : 0.02));
  }
}

TEST_CASE("a layer of prediction is a layer, a product of twice the width and one more head") {
  const std::int64_t none = executed(dense({4, 0}, kTe));
  const std::int64_t layer = executed(dense({5, 0}, kTe)) - none;
  const std::int64_t prediction = executed(dense({4, 1}, kTe)) - none;
  // Of three passes over 512 tokens: eh_proj of 2h to h, and the output layer of h to V.
  constexpr std::int64_t kTokens = 512;
  constexpr std::int64_t kOfToken = 3 * 2 * (512 * 2 * 512 + 512 * 5120);
  CHECK(prediction - layer == kTokens * kOfToken);
  CHECK(executed(dense({4, 2}, kTe)) - none == prediction + prediction);
}

TEST_CASE("full recompute runs a layer of prediction again, as a layer of the decoder") {
  const std::string again = std::string(kTe) + ", recompute: full";
  const std::int64_t layer = executed(dense({5, 0}, again)) - executed(dense({4, 0}, again)) -
                             (executed(dense({5, 0}, kTe)) - executed(dense({4, 0}, kTe)));
  const std::int64_t prediction = executed(dense({4, 1}, again)) - executed(dense({4, 0}, again)) -
                                  (executed(dense({4, 1}, kTe)) - executed(dense({4, 0}, kTe)));
  CHECK(prediction - layer == std::int64_t{512} * 2 * (2 * 512) * 512);
}

TEST_CASE("a layer of prediction has three norms and a product beside a layer's parameters") {
  const std::int64_t layer = parameters(dense({5, 0}, kTe)) - parameters(dense({4, 0}, kTe));
  const std::int64_t prediction = parameters(dense({4, 1}, kTe)) - parameters(dense({4, 0}, kTe));
  CHECK(prediction - layer == 3 * 512 + 512 * 1024);
}

TEST_CASE(
    "the stage that predicts holds a copy of the embedding, together with the loss or apart") {
  const std::string spec = dense({4, 1}, kTe);
  const std::int64_t whole = held(spec, {});
  constexpr std::int64_t kTable = 5120 * 512;
  CHECK(whole == parameters(spec));
  const ModelPart first{.first = 0, .count = 2, .embedding = true, .head = false};
  const ModelPart middle{.first = 2, .count = 2, .embedding = false, .head = false};
  const ModelPart last{.first = 2, .count = 2, .embedding = false, .head = true};
  const ModelPart apart{.first = 4, .count = 0, .embedding = false, .head = true};
  CHECK(held(spec, {first}) + held(spec, {last}) == whole + kTable);
  CHECK(held(spec, {first}) + held(spec, {middle}) + held(spec, {apart}) == whole + kTable);
}

}  // namespace
}  // namespace memest
