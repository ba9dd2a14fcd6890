// The blocks' parameters and the inventory are counted apart; they must agree for every shape of
// decoder.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <random>

#include "memest/graph/lower.hpp"
#include "memest/graph/parameters.hpp"
#include "models.hpp"

namespace memest {
namespace {

/// Draws decoders: every field a choice of what families have.
class DecoderDraw {
 public:
  explicit DecoderDraw(unsigned seed) : engine_(seed) {}

  DecoderSpec draw() {
    DecoderSpec decoder;
    decoder.hidden_size = number(8, 64) * 8;
    decoder.vocab_size = number(100, 5000);
    decoder.embedding_size = chance(0.2) ? number(1, 8) * 16 : decoder.hidden_size;
    decoder.norm = draw_norm();
    decoder.attention = draw_attention();
    decoder.position = draw_position(std::get<SoftmaxAttention>(decoder.attention).head_dim);
    decoder.layout = one_of(std::array{
        BlockLayout::pre_norm, BlockLayout::post_norm, BlockLayout::sandwich,
        BlockLayout::output_norm, BlockLayout::parallel_one_norm, BlockLayout::parallel_two_norms});
    decoder.embedding_norm = chance(0.2);
    decoder.final_norm = chance(0.8);
    decoder.tied_embeddings = chance(0.5);
    decoder.head_bias = chance(0.2);
    decoder.dropout = {0.1, chance(0.5) ? 0.1 : 0.0, 0.1, chance(0.2) ? 0.1 : 0.0};
    if (chance(0.2)) decoder.logit_softcap = 30.0;
    draw_layers(decoder);
    return decoder;
  }

  bool chance(double probability) { return static_cast<double>(engine_()) < probability * 0x1p32; }

  template <class Choice, std::size_t kCount>
  Choice one_of(const std::array<Choice, kCount>& choices) {
    return choices[static_cast<std::size_t>(number(0, std::int64_t{kCount} - 1))];
  }

 private:
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }

  Norm draw_norm() {
    Norm norm;
    norm.kind = one_of(std::array{NormKind::layernorm, NormKind::rmsnorm});
    norm.gain = one_of(
        std::array{NormGain::weight, NormGain::weight, NormGain::one_plus_weight, NormGain::none});
    norm.bias = norm.gain == NormGain::weight && chance(0.5);
    return norm;
  }

  SoftmaxAttention draw_attention() {
    SoftmaxAttention attention;
    attention.kv_heads = number(1, 4);
    attention.heads = attention.kv_heads * number(1, 4);
    attention.head_dim = number(1, 16) * 8;
    attention.layout = one_of(std::array{QkvLayout::separate, QkvLayout::fused});
    attention.q_bias = chance(0.5);
    attention.kv_bias = attention.layout == QkvLayout::fused ? attention.q_bias : chance(0.5);
    attention.output_bias = chance(0.5);
    attention.qk_norm = one_of(
        std::array{QkNorm::none, QkNorm::per_head, QkNorm::per_head_own, QkNorm::full_width});
    if (attention.layout == QkvLayout::fused && attention.qk_norm == QkNorm::full_width) {
      attention.qk_norm = QkNorm::none;
    }
    attention.qk_norm_kind = draw_norm();
    return attention;
  }

  Position draw_position(std::int64_t head_dim) {
    switch (number(0, 3)) {
      case 0:
        return LearnedPosition{number(64, 2048)};
      case 1:
        return AlibiPosition{};
      case 2:
        return NoPosition{};
      default:
        return RotaryPosition{.rotary_dim = chance(0.5) ? head_dim : head_dim / 2,
                              .tables = number(1, 2)};
    }
  }

  void draw_layers(DecoderSpec& decoder) {
    const std::int64_t kinds = number(1, 3);
    for (std::int64_t i = 0; i < kinds; ++i) {
      LayerKind kind;
      if (chance(0.4)) kind.sliding_window = number(16, 512);
      kind.rotates = chance(0.8);
      DenseFeedForward part;
      part.size = number(1, 64) * 8;
      part.activation =
          one_of(std::array{ActivationFunction::silu, ActivationFunction::gelu_new,
                            ActivationFunction::relu2, ActivationFunction::gelu_fast});
      part.gated = chance(0.5);
      part.fused_gate_up = part.gated && chance(0.3);
      part.bias = chance(0.5);
      kind.feed_forward = part;
      decoder.kinds.push_back(kind);
    }
    for (std::int64_t i = 0; i < 5; ++i) {
      decoder.order.push_back({static_cast<std::size_t>(number(0, kinds - 1)), number(1, 3)});
    }
  }

  std::mt19937 engine_;
};

Int128 parameters_of_blocks(const Graph& graph) {
  Expr total;
  for (const BlockRun& run : graph.order) {
    total += Expr(run.repeat) * graph.blocks[run.block].parameters();
  }
  return total.evaluate(graph.sizes);
}

}  // namespace

TEST_CASE("the blocks hold every parameter once, whatever the decoder looks like") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    DecoderDraw draw(seed);
    ModelSpec model;
    model.architecture = draw.draw();
    const Framework framework =
        draw.one_of(std::array{Framework::transformers, Framework::nanogpt, Framework::textbook});
    const AttentionKernel attention = draw.one_of(
        std::array{AttentionKernel::sdpa, AttentionKernel::eager, AttentionKernel::sdpa_math});
    LoweringPolicy policy = policy_for(framework, attention);
    policy.weights = draw.chance(0.5) ? DType::fp32 : DType::bf16;
    policy.autocast = draw.chance(0.5);
    if (!policy.autocast) policy.compute = policy.weights;
    policy.micro_batch = draw.chance(0.5) ? 1 : 3;
    policy.seq_len = 77;
    const Graph graph = lowered(model, policy);
    REQUIRE(parameters_of_blocks(graph) == count_parameters(model).total);
    // What is saved is the sum over the blocks in order, and recompute keeps no more.
    Expr by_block;
    for (const Expr& bytes : graph.saved_bytes_by_block()) by_block += bytes;
    REQUIRE(by_block == graph.saved_bytes());
    REQUIRE(graph.shared_saved_bytes(false).evaluate(graph.sizes) <=
            graph.saved_bytes().evaluate(graph.sizes));
  }
}

}  // namespace memest
