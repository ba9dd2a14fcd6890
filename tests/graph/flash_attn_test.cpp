// What the flash-attn package's attention keeps and computes under transformers, of sequences that
// lie apart and of joined ones, and what it does not run.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/spec/training.hpp"
#include "models.hpp"

namespace memest {
namespace {

LoweringPolicy package(std::int64_t micro_batch, std::int64_t seq_len) {
  LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::flash_2);
  policy.micro_batch = micro_batch;
  policy.seq_len = seq_len;
  return policy;
}

/// SFTTrainer's, whose sequences lie as one.
LoweringPolicy joined(std::int64_t micro_batch, std::int64_t seq_len, std::int64_t documents) {
  TrainingSpec training;
  training.seq_len = seq_len;
  training.micro_batch = micro_batch;
  training.recipe.weights = training.recipe.compute = DType::bf16;
  training.implementation.attention = AttentionKernel::flash_2;
  training.implementation.loop = LoopKind::sft;
  training.padding_free = PaddingFree{documents};
  return policy_of(training, kHopper, 132);
}

Op attention_of(const Graph& graph) {
  const Block block = layer(graph);
  const auto found = std::ranges::find(block.ops, OpKind::attention, &Op::kind);
  REQUIRE(found != block.ops.end());
  return *found;
}

std::int64_t bytes(const Graph& graph, const Expr& size) {
  return narrow_to_int64(size.evaluate(graph.sizes));
}

bool has_tensor(const Graph& graph, std::string_view name) {
  return std::ranges::any_of(graph.blocks, [name](const Block& block) {
    return std::ranges::any_of(block.tensors, [name](const Tensor& t) { return t.op == name; });
  });
}

std::string refusal_of(const ModelSpec& model, const LoweringPolicy& policy) {
  const auto graph = lower(model, policy);
  const auto* refused = std::get_if<Unavailable>(&graph);
  return refused == nullptr ? "" : refused->sentence;
}

TEST_CASE("the package keeps its operands, its result, a number a row and the generator's state") {
  for (const std::int64_t kv_heads : {1, 8, 32}) {
    INFO(kv_heads);
    const Graph graph = lowered(llama_of(kv_heads), package(2, 1024));
    const Block block = layer(graph);
    Expr kept;
    for (const TensorId id : attention_of(graph).saved) kept += block.tensors[id].bytes();
    // 32 heads of 128 channels.
    CHECK(bytes(graph, kept) == 2 * 1024 * (2 * 128 * (2 * 32 + 2 * kv_heads) + 4 * 32) + 16);
  }
}

TEST_CASE("a window is the kernel's affair: no mask, and the scores within it alone") {
  ModelSpec model = llama();
  std::get<DecoderSpec>(model.architecture).kinds.front().sliding_window = 256;
  const Graph graph = lowered(model, package(2, 1024));
  CHECK_FALSE(has_tensor(graph, "sliding mask"));
  CHECK_FALSE(has_tensor(graph, "attention_mask"));
  const Op attention = attention_of(graph);
  CHECK(attention.window == 256);
  CHECK(bytes(graph, attention.forward.flops) ==
        4 * 2 * std::int64_t{32} * 128 * 256 * (2 * 1024 - 256));
  LoweringPolicy sdpa = package(2, 1024);
  sdpa.implementation.attention = AttentionKernel::sdpa;
  CHECK(has_tensor(lowered(model, sdpa), "sliding mask"));
}

TEST_CASE("joined sequences are one to the layers, and their documents to attention") {
  const Graph graph = lowered(llama(), joined(4, 512, 2));
  const Graph one = lowered(llama(), package(1, 4 * 512));
  // Where documents begin came with the batch.
  CHECK(bytes(graph, layer(graph).saved_bytes(false)) == bytes(one, layer(one).saved_bytes(false)));
  CHECK(attention_of(graph).documents == 2);
  CHECK(8 * bytes(graph, attention_of(graph).forward.flops) ==
        bytes(one, attention_of(one).forward.flops));
}

TEST_CASE("the formula of joined sequences holds for any number of them") {
  const Graph few = lowered(llama(), joined(2, 512, 4));
  for (const std::int64_t sequences : {1, 3, 8}) {
    INFO(sequences);
    const Graph own = lowered(llama(), joined(sequences, 512, 4));
    Bindings sizes = few.sizes;
    bind_tokens(sizes, sequences, 512);
    CHECK(narrow_to_int64(layer(few).saved_bytes(false).evaluate(sizes)) ==
          bytes(own, layer(own).saved_bytes(false)));
    CHECK(few.forward_flops().evaluate(sizes) == own.forward_flops().evaluate(own.sizes));
  }
}

TEST_CASE("no document's first token is a target") {
  CHECK(package(2, 512).targets() == 511);
  CHECK(joined(4, 512, 2).targets() == 4 * (512 - 2));
  LoweringPolicy completions = joined(4, 512, 2);
  completions.completion_len = 4 * 100;
  CHECK(completions.targets() == 4 * 100);
}

TEST_CASE("what the package does not run is refused by name") {
  LoweringPolicy wide = package(1, 512);
  wide.weights = wide.compute = DType::fp32;
  CHECK(refusal_of(llama(), wide) == "the flash-attn package takes 16-bit types only");
  LoweringPolicy old = package(1, 512);
  old.capability = {7, 5};
  CHECK(refusal_of(llama(), old) ==
        "the flash-attn package takes GPUs of the Ampere generation and newer");
  ModelSpec prompted = llama();
  prompted.adapter.emplace();
  prompted.adapter->kind = AdapterKind::prompt_tuning;
  prompted.adapter->virtual_tokens = 8;
  CHECK(refusal_of(prompted, joined(2, 512, 1)) ==
        "prompts of an adapter before joined sequences are not available");
  LoweringPolicy other = policy_for(Framework::nanogpt, AttentionKernel::flash_2);
  CHECK(refusal_of(nanogpt(), other) ==
        "the flash-attn package is available in the implementations transformers and megatron");
}

}  // namespace
}  // namespace memest
