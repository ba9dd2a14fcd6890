// What a layer of litgpt keeps, against the closed form of docs/frameworks/litgpt.md, what its
// output head multiplies at a time, and what it has no graph for.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/graph/lower.hpp"
#include "memest/graph/parameters.hpp"
#include "models.hpp"

namespace memest {
namespace {

LoweringPolicy litgpt(std::int64_t micro_batch, std::int64_t seq_len) {
  return chunked_policy(Framework::litgpt, micro_batch, seq_len);
}

/// As the page writes it: two norms, attention's inputs and its output twice, its log-sum-exp, and
/// the gate's four, of every token; two gains in fp32; cuDNN's seed and offset.
std::int64_t of_the_page(const ModelSpec& model, const LoweringPolicy& policy) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  const auto& attention = std::get<SoftmaxAttention>(decoder.attention);
  const auto& dense = std::get<DenseFeedForward>(decoder.kinds.front().feed_forward);
  const std::int64_t by_heads =
      attention.kv_heads < attention.heads
          ? 10 * attention.heads * attention.head_dim
          : (8 * attention.heads + 6 * attention.kv_heads) * attention.head_dim;
  const std::int64_t of_token =
      20 * decoder.hidden_size + 8 + by_heads + 4 * attention.heads + 8 * dense.size;
  return policy.micro_batch * policy.seq_len * of_token + 8 * decoder.hidden_size + 16;
}

TEST_CASE("a layer of litgpt keeps what its page says") {
  for (const std::int64_t kv_heads : {2, 8, 32}) {
    INFO(kv_heads);
    const ModelSpec model = llama_of(kv_heads);
    const LoweringPolicy policy = litgpt(2, 256);
    const Graph graph = lowered(model, policy);
    CHECK(narrow_to_int64(layer(graph).saved_bytes(false).evaluate(graph.sizes)) ==
          of_the_page(model, policy));
  }
}

std::int64_t heads_products(ModelSpec model, std::int64_t micro_batch, std::int64_t seq_len) {
  const Graph graph = lowered(model, litgpt(micro_batch, seq_len));
  return std::ranges::count_if(graph.blocks.back().ops,
                               [](const Op& op) { return op.kind == OpKind::linear; });
}

TEST_CASE("litgpt's output head multiplies 128 tokens at a time, of LoRA alone") {
  ModelSpec adapted = llama();
  adapted.adapter = Adapter{.rank = 8, .targets = {"query"}, .dtype = DType::bf16};
  CHECK(heads_products(adapted, 2, 256) == 2);
  CHECK(heads_products(adapted, 1, 129) == 2);
  CHECK(heads_products(adapted, 1, 100) == 1);
  CHECK(heads_products(llama(), 2, 256) == 1);
}

std::vector<std::int64_t> shape_of(const Graph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.parameters.parameters, name, &ParameterTensor::name);
  return found == graph.parameters.parameters.end() ? std::vector<std::int64_t>() : found->shape;
}

TEST_CASE("litgpt has one weight for queries, keys and values, and an output head in any case") {
  ModelSpec model = llama_of(2);
  std::get<DecoderSpec>(model.architecture).tied_embeddings = true;
  const Graph graph = lowered(as_programmed(model, litgpt(1, 128).implementation), litgpt(1, 128));
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  const auto& attention = std::get<SoftmaxAttention>(decoder.attention);
  const std::int64_t rows = (attention.heads + 2 * attention.kv_heads) * attention.head_dim;
  CHECK(shape_of(graph, "attn.qkv.weight") == std::vector{rows, decoder.hidden_size});
  CHECK(shape_of(graph, "lm_head.weight") == std::vector{decoder.vocab_size, decoder.hidden_size});
}

TEST_CASE("models that litgpt's GPT does not have have no graph") {
  const auto refusal = [](const ModelSpec& model) {
    const auto result = lower(model, litgpt(1, 256));
    const auto* refused = std::get_if<Unavailable>(&result);
    return refused == nullptr ? std::string() : refused->sentence;
  };
  const std::string known =
      "the implementation litgpt is available for models of LLaMA's and GPT-NeoX's architectures "
      "only";
  CHECK(refusal(llama()).empty());
  CHECK(refusal(gpt(0.0)) == known);
  ModelSpec shorter = llama();
  std::get<DecoderSpec>(shorter.architecture).max_positions = 128;
  CHECK(refusal(shorter) ==
        "litgpt's model is made for 128 positions: sequences of 256 tokens are longer");
}

}  // namespace
}  // namespace memest
