// The published closed forms, as equalities between formulas.
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
const Expr v = Symbol::vocab_size;
const Expr t = Symbol::tensor;
const Expr N = b * s;

/// The classic sizes: as many key/value heads as heads, h = a·d, f = 4·h.
Expr classic(const Expr& formula) {
  return formula.substitute(Symbol::kv_heads, a)
      .substitute(Symbol::head_dim, h / a)
      .substitute(Symbol::ffn_size, Expr(4) * h);
}

LoweringPolicy textbook() {
  LoweringPolicy policy = policy_for(Framework::textbook, AttentionKernel::textbook);
  policy.implementation.loss = LossKernel::plain;
  policy.implementation.norm = NormKernel::fused;
  return policy;
}

/// A fused kernel's seed and offset of the dropout, which the closed forms leave out.
Expr without_seeds(const Expr& bytes, std::int64_t seeds) { return bytes - Expr(seeds); }

}  // namespace

TEST_CASE("textbook GPT block keeps s·b·h·(34 + 5·a·s/h)", "[formulas]") {
  const Graph graph = lowered(gpt(0.1), textbook());
  REQUIRE(classic(layer(graph).saved_bytes(false)) == s * b * h * (34 + Expr(5) * a * s / h));
}

TEST_CASE("textbook GPT block under tensor parallelism keeps s·b·h·(10 + 24/t + 5·a·s/(h·t))",
          "[formulas]") {
  LoweringPolicy policy = textbook();
  policy.symbolic_tensor_parallel = true;
  const Expr bytes = classic(layer(lowered(gpt(0.1), policy)).saved_bytes(false));
  REQUIRE(bytes == s * b * h * (10 + 24 / t + Expr(5) * a * s / (h * t)));

  policy.sequence_parallel = true;
  const Expr sharded = classic(layer(lowered(gpt(0.1), policy)).saved_bytes(false));
  REQUIRE(sharded == s * b * h / t * (34 + Expr(5) * a * s / h));
}

TEST_CASE("selective recompute removes 5·a·s/h", "[formulas]") {
  const Graph graph = lowered(gpt(0.1), textbook());
  REQUIRE(classic(layer(graph).saved_bytes_without_attention_core()) == 34 * s * b * h);
}

TEST_CASE("selective recompute leaves s·b·h·(10 + 24/t), with sequence parallelism 34·s·b·h/t",
          "[formulas]") {
  LoweringPolicy policy = textbook();
  policy.symbolic_tensor_parallel = true;
  const auto kept = [&] {
    return classic(layer(lowered(gpt(0.1), policy)).saved_bytes_without_attention_core());
  };
  REQUIRE(kept() == s * b * h * (10 + 24 / t));
  policy.sequence_parallel = true;
  REQUIRE(kept() == 34 * s * b * h / t);
}

TEST_CASE("full recompute leaves 2·s·b·h", "[formulas]") {
  const Graph graph = lowered(gpt(0.1), textbook());
  REQUIRE(layer(graph).tensors[layer(graph).input].bytes() == 2 * s * b * h);

  LoweringPolicy policy = textbook();
  policy.symbolic_tensor_parallel = true;
  const auto input = [&] {
    const Block block = layer(lowered(gpt(0.1), policy));
    return block.tensors[block.input].bytes();
  };
  REQUIRE(input() == 2 * s * b * h);  // every tensor-parallel rank keeps it whole
  policy.sequence_parallel = true;
  REQUIRE(input() == 2 * s * b * h / t);
}

TEST_CASE("without dropout the textbook block loses its masks and the dropped probabilities",
          "[formulas]") {
  const Graph graph = lowered(gpt(0.0), textbook());
  REQUIRE(classic(layer(graph).saved_bytes(false)) == s * b * h * (32 + Expr(2) * a * s / h));
}

TEST_CASE("LLaMA block of transformers with flash attention") {
  const Graph graph =
      lowered(llama(), policy_for(Framework::transformers, AttentionKernel::sdpa_flash));
  const Expr bytes = without_seeds(layer(graph).saved_bytes(false), 24);
  REQUIRE(bytes == 2 * (6 * N * h + 4 * N) + 4 * N * h + 8 * N * f + 4 * N * a * d + 4 * N * k * d +
                       4 * N * a);
  REQUIRE((bytes / N).evaluate(graph.sizes) == 200'840);
}

TEST_CASE("LLaMA outside its layers: tables, final norm, head, loss") {
  LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa_flash);
  policy.micro_batch = 2;
  const Graph graph = lowered(llama(), policy);
  const Expr layers = 32 * layer(graph).saved_bytes(false);
  const Expr r = Symbol::rotary_dim;
  REQUIRE(graph.saved_bytes() - layers ==
          4 * s * r + 6 * N * h + 4 * N + 2 * N * h + 8 * N + 4 * N * v + 8 * N + 4);
}

TEST_CASE("GPT-2 of transformers: 58·N·h + 64·N a layer, 44,608 B a token") {
  const Graph graph =
      lowered(gpt2(), policy_for(Framework::transformers, AttentionKernel::sdpa_flash));
  const Expr bytes = without_seeds(layer(graph).saved_bytes(false), 24);
  REQUIRE(classic(bytes) == 58 * N * h + 4 * N * a + 16 * N);
  REQUIRE((bytes / N).evaluate(graph.sizes) == 44'608);
}

TEST_CASE("fp32 weights under bf16 autocast add 10·N·h and the weight copies to a LLaMA layer") {
  LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa_flash);
  const Expr pure = layer(lowered(llama(), policy)).saved_bytes(false);
  policy.weights = DType::fp32;
  policy.autocast = true;
  const Block block = layer(lowered(llama(), policy));
  const Expr matmul_weights = 2 * h * a * d + 2 * h * k * d + 3 * h * f;
  REQUIRE(block.saved_cast_bytes() == 2 * matmul_weights);
  REQUIRE(block.saved_bytes(false) == pure + 10 * N * h + 2 * matmul_weights);
}

TEST_CASE("Qwen3 adds its query and key norms to a LLaMA layer") {
  const LoweringPolicy policy = policy_for(Framework::transformers, AttentionKernel::sdpa_flash);
  const Expr plain = layer(lowered(llama(), policy)).saved_bytes(false);
  ModelSpec model = llama();
  std::get<SoftmaxAttention>(std::get<DecoderSpec>(model.architecture).attention).qk_norm =
      QkNorm::per_head;
  REQUIRE(layer(lowered(model, policy)).saved_bytes(false) ==
          plain + 6 * N * a * d + 4 * N * a + 6 * N * k * d + 4 * N * k);
}

TEST_CASE("Gemma 2 keeps four norms of 8·N·h + 4·N + 4·h a layer") {
  const Graph graph =
      lowered(gemma2(), policy_for(Framework::transformers, AttentionKernel::sdpa_flash));
  const Expr norms = 4 * (8 * N * h + 4 * N + 4 * h);
  const Expr bytes = without_seeds(layer(graph).saved_bytes(false), 24);
  REQUIRE(bytes == norms + 4 * N * h + 8 * N * f + 4 * N * a * d + 4 * N * k * d + 4 * N * a);
}

TEST_CASE("nanoGPT under autocast") {
  LoweringPolicy policy = policy_for(Framework::nanogpt, AttentionKernel::sdpa_flash);
  policy.implementation.loss = LossKernel::plain;
  policy.implementation.norm = NormKernel::fused;
  policy.weights = DType::fp32;
  policy.autocast = true;
  const Graph graph = lowered(nanogpt(), policy);
  const Expr L(std::get<DecoderSpec>(nanogpt().architecture).layers());
  // The recorded runs use one tensor as tokens and targets; nanoGPT's own script has two, 8·N more.
  const Expr published = L * (N * (36 * h + 4 * a + 16) + 24 * h * h) +
                         N * (6 * h + 8 + 6 * v + 16) + 2 * v * h + 8 * s + 16 * L + 4;
  const Expr flash_seeds = L * Expr(24 - 16);
  REQUIRE(classic(graph.saved_bytes()) == published - 8 * N + flash_seeds);
}

TEST_CASE("a plain stack of L linear layers of width D at batch B keeps 2·B·D·L") {
  LoweringPolicy policy = policy_for(Framework::plain, AttentionKernel::sdpa);
  const std::int64_t width = 512;
  const std::int64_t layers = 7;
  LayerList list;
  list.blocks = {{layers, {LinearLayer{width, width, true}}}};
  ModelSpec model;
  model.architecture = list;
  const Graph graph = lowered(model, policy);
  const Expr loss = graph.blocks.back().saved_bytes(false);
  REQUIRE(graph.saved_bytes() - loss == 2 * N * Expr(width) * Expr(layers));
}

TEST_CASE("FLOPs are 6·Φ_matmul a token and the attention's products, exactly") {
  for (const AttentionKernel kernel : {AttentionKernel::sdpa_flash, AttentionKernel::eager}) {
    const Graph graph = lowered(llama(), policy_for(Framework::transformers, kernel));
    const Expr L(std::get<DecoderSpec>(llama().architecture).layers());
    const Expr matmul = L * (2 * h * a * d + 2 * h * k * d + 3 * h * f) + h * v;
    const Expr scores = L * 4 * N * a * s * d;
    const Expr rotary_table = Expr(Symbol::rotary_dim) * s;
    REQUIRE(graph.forward_flops() == 2 * matmul * N + scores + rotary_table);
    const bool fused = kernel == AttentionKernel::sdpa_flash;
    const Expr factor(fused ? Rational(5, 2) : Rational(2));
    REQUIRE(graph.backward_flops() == 4 * matmul * N + factor * scores);
  }
}

}  // namespace memest
