// What a layer of torchtune keeps, against the closed form of docs/frameworks/torchtune.md, what
// its output head multiplies at a time, and what it has no graph for.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <variant>

#include "memest/graph/lower.hpp"
#include "models.hpp"

namespace memest {
namespace {

LoweringPolicy torchtune(std::int64_t micro_batch, std::int64_t seq_len) {
  return chunked_policy(Framework::torchtune, micro_batch, seq_len);
}

/// As the page writes it: two norms, four tensors by query heads, their log-sum-exp, and the gate's
/// four; cuDNN's seed and offset beside.
std::int64_t of_the_page(const ModelSpec& model, const LoweringPolicy& policy) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  const auto& attention = std::get<SoftmaxAttention>(decoder.attention);
  const auto& dense = std::get<DenseFeedForward>(decoder.kinds.front().feed_forward);
  const std::int64_t of_token = 20 * decoder.hidden_size + 8 +
                                8 * attention.heads * attention.head_dim + 4 * attention.heads +
                                8 * dense.size;
  return policy.micro_batch * policy.seq_len * of_token + 16;
}

TEST_CASE("a layer keeps what its page says, whatever the number of key and value heads") {
  for (const std::int64_t kv_heads : {2, 4, 8}) {
    INFO(kv_heads);
    const ModelSpec model = llama_of(kv_heads);
    const LoweringPolicy policy = torchtune(2, 256);
    const Graph graph = lowered(model, policy);
    CHECK(narrow_to_int64(layer(graph).saved_bytes(false).evaluate(graph.sizes)) ==
          of_the_page(model, policy));
  }
}

ModelSpec qwen2(std::int64_t kv_heads) {
  ModelSpec model = llama_of(kv_heads);
  auto& attention = std::get<SoftmaxAttention>(std::get<DecoderSpec>(model.architecture).attention);
  attention.q_bias = attention.kv_bias = true;
  return model;
}

TEST_CASE("Qwen2's rotations keep their own cosines and sines, of each position once") {
  for (const std::int64_t kv_heads : {2, 8}) {
    const ModelSpec model = qwen2(kv_heads);
    const auto& decoder = std::get<DecoderSpec>(model.architecture);
    const std::int64_t head_dim = std::get<SoftmaxAttention>(decoder.attention).head_dim;
    const LoweringPolicy policy = torchtune(2, 256);
    const Graph graph = lowered(model, policy);
    // Two tables in 16 bits of queries and of keys, whatever the micro-batch.
    CHECK(narrow_to_int64(layer(graph).saved_bytes(false).evaluate(graph.sizes)) ==
          of_the_page(model, policy) + 2 * 2 * 2 * 256 * head_dim);
  }
}

TEST_CASE("Qwen2's table has both halves' numbers, and beside adapters each layer its own") {
  const auto table_bytes = [](const ModelSpec& model) {
    std::int64_t bytes = 0;
    for (const BufferTensor& buffer : lowered(model, torchtune(1, 256)).parameters.buffers) {
      if (!buffer.name.ends_with("cache")) continue;
      bytes += 4 * buffer.count * buffer.shape[0] * buffer.shape[1] * buffer.shape[2];
    }
    return bytes;
  };
  ModelSpec model = qwen2(2);
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  decoder.max_positions = 40'000;
  const std::int64_t head_dim = std::get<SoftmaxAttention>(decoder.attention).head_dim;
  CHECK(table_bytes(model) == 4 * 40'000 * 2 * head_dim);
  model.adapter = Adapter{.rank = 8, .targets = {"q_proj"}};
  CHECK(table_bytes(model) == decoder.layers() * 4 * 40'000 * 2 * head_dim);
}

std::int64_t heads_products(std::int64_t micro_batch, std::int64_t seq_len) {
  const Graph graph = lowered(llama(), torchtune(micro_batch, seq_len));
  return std::ranges::count_if(graph.blocks.back().ops,
                               [](const Op& op) { return op.kind == OpKind::linear; });
}

TEST_CASE("the output head multiplies the parts of torch.chunk(8)") {
  CHECK(heads_products(2, 256) == 8);
  CHECK(heads_products(1, 9) == 5);  // 2, 2, 2, 2, 1
  CHECK(heads_products(1, 3) == 3);
}

TEST_CASE("models that its builders do not make of these parts have no graph") {
  const auto refusal = [](const ModelSpec& model) {
    const auto result = lower(model, torchtune(1, 256));
    const auto* refused = std::get_if<Unavailable>(&result);
    return refused == nullptr ? std::string() : refused->sentence;
  };
  const std::string known =
      "the implementation torchtune is available for models of LLaMA's architecture and Qwen2's, "
      "whose queries, keys and values have biases, only";
  CHECK(refusal(llama()).empty());
  CHECK(refusal(gpt(0.0)) == known);
  ModelSpec biased = llama();
  auto& decoder = std::get<DecoderSpec>(biased.architecture);
  std::get<SoftmaxAttention>(decoder.attention).kv_bias = true;
  CHECK(refusal(biased) == known);
  ModelSpec shorter = llama();
  std::get<DecoderSpec>(shorter.architecture).max_positions = 128;
  CHECK(refusal(shorter) ==
        "torchtune's model is made for 128 positions: sequences of 256 tokens are longer");
}

}  // namespace
}  // namespace memest
