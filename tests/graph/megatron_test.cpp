// What a layer of Megatron-core keeps, against the closed forms of its paper (Korthikanti et al.
// 2022, "Reducing Activation Recomputation in Large Transformer Models").
#include <catch2/catch_test_macros.hpp>

#include "memest/graph/lower.hpp"
#include "models.hpp"

namespace memest {
namespace {

const Expr b = Symbol::micro_batch;
const Expr s = Symbol::seq_len;
const Expr h = Symbol::hidden_size;
const Expr a = Symbol::heads;
const Expr k = Symbol::kv_heads;
const Expr d = Symbol::head_dim;
const Expr f = Symbol::ffn_size;
const Expr t = Symbol::tensor;

/// Beyond the paper's: means and reciprocal deviations of the two norms, in fp32.
const Expr kStatistics = Expr(16) * s * b;

LoweringPolicy megatron(std::int64_t tensor, bool sequence) {
  LoweringPolicy policy = policy_for(Framework::megatron, AttentionKernel::unfused);
  policy.implementation.loss = LossKernel::vocab_parallel;
  policy.tensor = tensor;
  policy.sequence_parallel = sequence;
  policy.micro_batch = 2;
  return policy;
}

/// As many key/value heads as heads, h = a·d, f = 4·h.
Expr classic(const Expr& formula) {
  return formula.substitute(Symbol::kv_heads, a)
      .substitute(Symbol::head_dim, h / a)
      .substitute(Symbol::ffn_size, Expr(4) * h);
}

Expr gpt_layer(std::int64_t tensor, bool sequence) {
  ModelSpec model = gpt(0.1);
  std::get<DecoderSpec>(model.architecture).vocab_size = 50304;
  const Block block = layer(lowered(model, megatron(tensor, sequence)));
  return classic(block.saved_bytes(false));
}

}  // namespace

TEST_CASE("a GPT layer of Megatron keeps s·b·h·(34 + 5·a·s/h)", "[formulas]") {
  CHECK(gpt_layer(1, false) == s * b * h * (34 + Expr(5) * a * s / h) + kStatistics);
}

TEST_CASE("its tensor parallelism divides 24 of the 34, and sequence parallelism the rest",
          "[formulas]") {
  CHECK(gpt_layer(4, false) == s * b * h * (10 + 24 / t + Expr(5) * a * s / (h * t)) + kStatistics);
  CHECK(gpt_layer(4, true) == s * b * h / t * (34 + Expr(5) * a * s / h) + kStatistics / t);
}

TEST_CASE("a Llama layer of Megatron keeps repeated keys and values and the softmax") {
  const Expr tokens = b * s;
  const auto kept = [&](std::int64_t tensor, bool sequence) {
    return layer(lowered(llama(), megatron(tensor, sequence))).saved_bytes(false);
  };
  const auto formula = [&](const Expr& whole) {
    return tokens * (2 * (4 * h * whole + a * d / t + 3 * f / t) + 6 * a * d / t + 8 * whole) +
           2 * b * a / t * s * s + 8 * s * d;  // with the cosines and sines of the layer
  };
  CHECK(kept(4, false) == formula(1));
  CHECK(kept(4, true) == formula(1 / t));
  CHECK(kept(1, false) == formula(1).substitute(Symbol::tensor, 1));
}

}  // namespace memest
