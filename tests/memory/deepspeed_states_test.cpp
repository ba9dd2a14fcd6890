// DeepSpeed's optimizers and pipeline engine around Megatron's layers.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/spec/parallel/sharding.hpp"

namespace memest {
namespace {

using namespace testing;

constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kTokens = 128;
constexpr std::int64_t kStream = 2 * kTokens * kHidden;

Job job_with(const std::string& precision, const std::string& parallelism, int micro_steps = 4) {
  const std::string text =
      "model: {family: decoder, layers: 4, hidden_size: 256, heads: 4, ffn_size: 1024, "
      "vocab_size: 1024, activation: gelu, norm: layernorm, position: learned, bias: true, "
      "tied_embeddings: true, max_positions: 128, dropout: 0.1}\n"
      "training: {seq_len: 128, micro_batch: 1, gradient_accumulation: " +
      std::to_string(micro_steps) + ", precision: " + precision +
      ", recompute: full, implementation: {name: megatron, layers: legacy, deepspeed: true}}\n"
      "parallelism: " +
      parallelism + "\nhardware: {gpu: a100-sxm-80gb}\n";
  Checked<Job> job = read_job(std::make_shared<const SourceText>(SourceText{"job.yaml", text}));
  REQUIRE(job.ok());
  return std::move(job).value();
}

Timeline timeline_of(const Job& job, JobRank rank = {}) {
  LoweringPolicy policy = policy_of(*job.training, kHopper);
  if (job.parallelism.pipeline > 1) {
    const LayerSpan span = job.stage_split(4).stage(rank.pipeline);
    const bool last = rank.pipeline + 1 == job.parallelism.pipeline;
    policy.parts = {{span.first, span.count, rank.pipeline == 0, last}};
  }
  const Graph graph = std::get<Graph>(lower(job.model, policy));
  return std::get<Timeline>(write_timeline(graph, job, rank));
}

/// Bytes of the tensors that the timeline makes for `tensor` of the loop, in order.
std::vector<std::int64_t> made(const Timeline& timeline, Holding holding, LoopTensor tensor) {
  std::vector<std::int64_t> bytes;
  for (const Storage& storage : timeline.storages) {
    const Label& label = storage.label;
    if (label.origin != Origin::loop || label.holding != holding) continue;
    if (label.tensor != static_cast<std::uint16_t>(tensor)) continue;
    bytes.push_back(storage.bytes);
  }
  return bytes;
}

std::int64_t elements_of(const Timeline& timeline) {
  std::int64_t total = 0;
  for (const TensorPlace& place : timeline.parameters) total += place.elements;
  return total;
}

}  // namespace

TEST_CASE("BF16_Optimizer has flat weights and sums of all gradients, and copies of both a step",
          "[memory]") {
  const Job job = job_with("megatron", "{data: 4, zero: 1}");
  CHECK(std::holds_alternative<DeepSpeedZero>(sharding_of(job)));
  const Timeline timeline = timeline_of(job);
  const std::int64_t elements = elements_of(timeline);
  REQUIRE(elements % 8 == 0);  // nothing is padded
  CHECK(made(timeline, Holding::weights, LoopTensor::parameter_buffer) ==
        std::vector{2 * elements});
  CHECK(made(timeline, Holding::gradients, LoopTensor::gradient_buffer) ==
        std::vector{4 * elements});
  const auto steps = static_cast<std::size_t>(job.training->steps);
  CHECK(made(timeline, Holding::temporaries, LoopTensor::gradient_bucket) ==
        std::vector(steps, 2 * elements));
  // A clone of the partition, of which its fp32 copy is made, and what the steps gather.
  std::vector<std::int64_t> gathered(1 + steps, 2 * elements);
  gathered.front() /= 4;
  CHECK(made(timeline, Holding::temporaries, LoopTensor::parameter_shard) == gathered);
}

TEST_CASE("stage 1 gathers its weights in shards of half a billion elements", "[memory]") {
  Job job = job_with("megatron-fp16", "{data: 4, zero: 1}");
  std::get<DecoderSpec>(job.model.architecture).vocab_size = 4 * 1024 * 1024;
  const Timeline timeline = timeline_of(job);
  const std::int64_t elements = elements_of(timeline);
  REQUIRE(elements / 500'000'000 == 2);
  std::vector<std::int64_t> shards =
      made(timeline, Holding::temporaries, LoopTensor::parameter_shard);
  REQUIRE(std::ssize(shards) >= 2);
  CHECK(shards[shards.size() - 2] + shards.back() == 2 * ((elements + 7) / 8 * 8));
}

TEST_CASE("behind each backward of BF16_Optimizer all gradients are widened, one at a time",
          "[memory]") {
  const Job job = job_with("megatron", "{data: 4, zero: 1}", 3);
  const Timeline timeline = timeline_of(job);
  const std::vector<std::int64_t> widened =
      made(timeline, Holding::temporaries, LoopTensor::gradient_in_master_type);
  CHECK(std::accumulate(widened.begin(), widened.end(), std::int64_t{0}) ==
        3 * job.training->steps * 4 * elements_of(timeline));
}

TEST_CASE("stage 1 in fp16 steps a partition, without buffers of its gradients", "[memory]") {
  const Job job = job_with("megatron-fp16",
                           "{data: 4, zero: 1, deepspeed: {reduce_bucket_size: "
                           "1000000}}");
  const Timeline timeline = timeline_of(job);
  const std::int64_t elements = elements_of(timeline);
  CHECK(made(timeline, Holding::weights, LoopTensor::parameter_buffer) ==
        std::vector{2 * elements});
  CHECK(made(timeline, Holding::gradients, LoopTensor::gradient_buffer).empty());
  CHECK(made(timeline, Holding::collective_buffers, LoopTensor::gradient_bucket).empty());
  // Of a step, and once with zeros before the first.
  const std::vector<std::int64_t> widened =
      made(timeline, Holding::temporaries, LoopTensor::gradient_in_master_type);
  CHECK(std::count(widened.begin(), widened.end(), elements / 4 * 4) >= 1 + job.training->steps);
}

TEST_CASE("DeepSpeed's engine clones what a stage receives, and keeps what it sends", "[memory]") {
  const auto received = [](JobRank rank) {
    const Job job = job_with("megatron-fp16", "{data: 2, pipeline: 2, zero: 1}");
    return made(timeline_of(job, rank), Holding::batch, LoopTensor::received);
  };
  // A buffer for gradients, for good: one element of a result is never made.
  const std::vector<std::int64_t> first = received({0, 0});
  CHECK(std::ranges::all_of(first, [](std::int64_t bytes) { return bytes == kStream; }));
  CHECK(std::ssize(first) == 1);
  // A buffer for good, and of each of 4 micro-steps what came with its clone.
  const Job job = job_with("megatron-fp16", "{data: 2, pipeline: 2, zero: 1}");
  CHECK(std::ssize(received({1, 0})) == 1 + 2 * 4 * job.training->steps);
}

TEST_CASE("the closed form leaves DeepSpeed around Megatron's layers to events", "[memory]") {
  const Job job = job_with("megatron", "{data: 4, zero: 1}");
  const auto reason = beyond_the_formulas(job);
  REQUIRE(reason);
  CHECK(reason->sentence ==
        "the closed form of DeepSpeed around Megatron's layers is not available yet: events alone "
        "answer");
}

}  // namespace memest
