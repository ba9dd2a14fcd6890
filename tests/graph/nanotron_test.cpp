// What a layer of nanotron keeps, against the closed form of docs/frameworks/nanotron.md, and what
// it has no graph for.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <variant>

#include "memest/graph/lower.hpp"
#include "models.hpp"

namespace memest {
namespace {

LoweringPolicy nanotron(std::int64_t tensor, bool sequence) {
  LoweringPolicy policy = policy_for(Framework::nanotron, AttentionKernel::flash_2);
  policy.implementation.loss = LossKernel::vocab_parallel;
  policy.tensor = tensor;
  policy.sequence_parallel = sequence;
  policy.micro_batch = 2;
  policy.multiprocessors = 132;
  return policy;
}

std::int64_t kept(const ModelSpec& model, const LoweringPolicy& policy) {
  const Graph graph = lowered(model, policy);
  return narrow_to_int64(layer(graph).saved_bytes(false).evaluate(graph.sizes));
}

/// As the page writes it, in bytes; two bounds of the sequences and a random state beside.
std::int64_t of_the_page(const ModelSpec& model, const LoweringPolicy& policy) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  const auto& attention = std::get<SoftmaxAttention>(decoder.attention);
  const auto& dense = std::get<DenseFeedForward>(decoder.kinds.front().feed_forward);
  const std::int64_t t = policy.tensor;
  const std::int64_t tokens = policy.micro_batch * policy.seq_len;
  const std::int64_t shards = policy.sequence_parallel ? t : 1;
  const std::int64_t heads = attention.heads * attention.head_dim / t;
  const std::int64_t pairs = attention.kv_heads * attention.head_dim / t;
  const std::int64_t each =
      2 * (2 * heads + 2 * pairs + 4 * dense.size / t) + 4 * attention.heads / t;
  const std::int64_t small = 2 * 4 * (policy.micro_batch + 1) + 16;
  return tokens * each + tokens / shards * (2 * 4 * decoder.hidden_size + 8) + small;
}

TEST_CASE("a layer keeps what its page says, on one rank and on shards of the sequence") {
  for (const std::int64_t tensor : {1, 2, 4, 8}) {
    INFO(tensor);
    const LoweringPolicy policy = nanotron(tensor, tensor > 1);
    CHECK(kept(llama(), policy) == of_the_page(llama(), policy));
  }
}

TEST_CASE("in the mode ALL_REDUCE several sequences keep the attention's output twice") {
  LoweringPolicy policy = nanotron(2, false);
  const ModelSpec model = llama();
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  const auto& attention = std::get<SoftmaxAttention>(decoder.attention);
  const std::int64_t output =
      2 * policy.micro_batch * policy.seq_len * attention.heads * attention.head_dim / 2;
  CHECK(kept(llama(), policy) == of_the_page(llama(), policy) + output);
  policy.micro_batch = 1;
  CHECK(kept(llama(), policy) == of_the_page(llama(), policy));
}

TEST_CASE("equal heads are parts of one copy of queries, keys and values, which stays whole") {
  ModelSpec model = llama();
  auto& attention = std::get<SoftmaxAttention>(std::get<DecoderSpec>(model.architecture).attention);
  attention.kv_heads = attention.heads;
  const LoweringPolicy policy = nanotron(1, false);
  const std::int64_t keys_and_values =
      2 * 2 * policy.micro_batch * policy.seq_len * attention.heads * attention.head_dim;
  CHECK(kept(model, policy) == of_the_page(model, policy) + keys_and_values);
}

TEST_CASE("what LlamaForTraining does not have is not answered") {
  const auto refusal = [](const ModelSpec& model) {
    const auto result = lower(model, nanotron(1, false));
    const auto* unavailable = std::get_if<Unavailable>(&result);
    return unavailable == nullptr ? std::string() : unavailable->sentence;
  };
  CHECK(refusal(llama()).empty());
  CHECK(refusal(gpt(0.0)) == "nanotron's LlamaForTraining has no bias in its products");
  ModelSpec window = llama();
  std::get<DecoderSpec>(window.architecture).kinds.front().sliding_window = 1024;
  CHECK(refusal(window) == "nanotron's LlamaForTraining has no sliding window");
  ModelSpec experts = llama();
  std::get<DecoderSpec>(experts.architecture).kinds.front().feed_forward =
      MixtureOfExperts{.experts = 8, .top_k = 2, .expert_size = 1024};
  CHECK(refusal(experts) == "nanotron's LlamaForTraining has no mixture of experts");
  ModelSpec normed = llama();
  std::get<SoftmaxAttention>(std::get<DecoderSpec>(normed.architecture).attention).qk_norm =
      QkNorm::per_head;
  CHECK(refusal(normed) == "nanotron's LlamaForTraining has no norm of queries and keys");
}

TEST_CASE("the vocabulary is rounded up for the tensor ranks") {
  ModelSpec model = llama();
  std::get<DecoderSpec>(model.architecture).vocab_size = 50257;
  const Graph graph = lowered(model, nanotron(4, true));
  CHECK(graph.parameters.parameters.front().shape.front() == 50260 / 4);
}

}  // namespace
}  // namespace memest
