// Megatron-LM's layers of 2021 and 2022: what their fused kernels keep and move.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string_view>

#include "memest/graph/lower.hpp"
#include "models.hpp"

namespace memest {
namespace {

const Expr b = Symbol::micro_batch;
const Expr s = Symbol::seq_len;
const Expr h = Symbol::hidden_size;
const Expr a = Symbol::heads;
const Expr t = Symbol::tensor;

LoweringPolicy legacy() {
  LoweringPolicy policy = policy_for(Framework::megatron, AttentionKernel::unfused);
  policy.implementation.loss = LossKernel::vocab_parallel;
  policy.implementation.layers = LayerSpec::legacy;
  policy.micro_batch = 2;
  return policy;
}

Block gpt_layer(const LoweringPolicy& policy) { return layer(lowered(gpt(0.1), policy)); }

/// h = a·d, f = 4·h, a head's keys and values its own.
Expr classic(const Expr& formula) {
  return formula.substitute(Symbol::kv_heads, a)
      .substitute(Symbol::head_dim, h / a)
      .substitute(Symbol::ffn_size, Expr(4) * h);
}

Expr kept(const LoweringPolicy& policy) { return classic(gpt_layer(policy).saved_bytes(false)); }

const Op& op_named(const Block& block, std::string_view name, OpKind kind) {
  const auto found = std::find_if(block.ops.begin(), block.ops.end(),
                                  [&](const Op& op) { return op.name == name && op.kind == kind; });
  REQUIRE(found != block.ops.end());
  return *found;
}

bool has_op(const Block& block, std::string_view name) {
  return std::any_of(block.ops.begin(), block.ops.end(),
                     [name](const Op& op) { return op.name == name; });
}

}  // namespace

TEST_CASE("legacy layers keep what Korthikanti et al. count, and their norms' statistics") {
  CHECK(kept(legacy()) == 34 * s * b * h + 5 * a * s * s * b + 16 * s * b);
  LoweringPolicy over_ranks = legacy();
  over_ranks.tensor = 4;
  over_ranks.micro_batch = 4;  // 12 heads, in blocks of 4
  CHECK(kept(over_ranks) == s * b * h * (10 + 24 / t) + 5 * a / t * s * s * b + 16 * s * b);
}

TEST_CASE("without its kernel the softmax is in fp32, and kept so") {
  LoweringPolicy policy = legacy();
  policy.implementation.masked_softmax_fusion = false;
  CHECK(kept(policy) - kept(legacy()) == (4 - 2) * a * s * s * b);
}

TEST_CASE("the softmax kernel takes sequences of up to 4096 and whole blocks of heads") {
  const auto is_fused = [](const LoweringPolicy& policy) {
    return !has_op(gpt_layer(policy), "mask");
  };
  LoweringPolicy policy = legacy();
  CHECK(is_fused(policy));
  policy.seq_len = 4096;
  CHECK(is_fused(policy));
  policy.seq_len = 4100;
  CHECK_FALSE(is_fused(policy));
  policy.seq_len = 2046;
  CHECK_FALSE(is_fused(policy));
  policy.seq_len = 2048;
  policy.weights = DType::fp32;
  CHECK_FALSE(is_fused(policy));
}

TEST_CASE("the softmax kernel reads a row up to its diagonal and writes it whole") {
  const Op softmax = op_named(gpt_layer(legacy()), "softmax", OpKind::scale);
  const Expr scores = 2 * a * s * s * b;
  CHECK(softmax.forward.bytes == scores / 2 + scores);
  // Both factors up to the diagonal, the gradient in place of the result's.
  CHECK(softmax.backward.bytes == scores / 2 + scores / 2 + scores);
  CHECK(softmax.backward_tensors.empty());
}

TEST_CASE("bias, dropout and sum read three and write two in one kernel") {
  const Block block = gpt_layer(legacy());
  const Op sum = op_named(block, "attention_residual", OpKind::add);
  CHECK(sum.forward.bytes == s * b * h * (2 + 2 + 2 + 1) + 2 * h);
  CHECK_FALSE(has_op(block, "attention_output_dropout"));

  LoweringPolicy apart = legacy();
  apart.implementation.bias_dropout_fusion = false;
  CHECK(has_op(gpt_layer(apart), "attention_output_dropout"));
  CHECK(kept(apart) == kept(legacy()));
}

TEST_CASE("gelu apart from its bias keeps their sum in place of the product") {
  LoweringPolicy apart = legacy();
  apart.implementation.bias_gelu_fusion = false;
  CHECK(kept(apart) == kept(legacy()));
  const auto kernels = [](const LoweringPolicy& policy) { return gpt_layer(policy).ops.size(); };
  CHECK(kernels(apart) == kernels(legacy()) + 1);
}

TEST_CASE("the product's preallocated sum is there for its call alone") {
  const Op scores = op_named(gpt_layer(legacy()), "scores", OpKind::batched_matmul);
  CHECK(scores.forward_scratch.size() == 1);
  CHECK(scores.forward_buffer == Expr());
}

TEST_CASE("BLOOM has a norm behind its embedding, and scores that are added to its biases") {
  ModelSpec model = gpt(0.1);
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  decoder.position = AlibiPosition{};
  decoder.embedding_norm = true;
  std::get<DenseFeedForward>(decoder.kinds.front().feed_forward).activation =
      ActivationFunction::gelu_bloom;
  const Graph graph = lowered(model, legacy());
  CHECK(has_op(graph.blocks[graph.order.front().block], "embedding_norm"));
  CHECK(classic(layer(graph).saved_bytes(false)) == kept(legacy()));
  CHECK(op_named(layer(graph), "scores", OpKind::batched_matmul).forward_scratch.empty());
  const auto& parameters = graph.parameters.parameters;
  CHECK(std::any_of(parameters.begin(), parameters.end(), [](const ParameterTensor& row) {
    return row.name == "embedding.word_embeddings.norm.weight";
  }));
}

TEST_CASE("models that Megatron had later have no legacy layers") {
  const auto refused = lower(llama(), legacy());
  REQUIRE(std::holds_alternative<Unavailable>(refused));
  CHECK(std::get<Unavailable>(refused).sentence ==
        "Megatron's legacy layers with heads in groups are not available yet");
}

}  // namespace memest
