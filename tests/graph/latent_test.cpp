// DeepSeek's latent attention and routers under transformers: what they keep, which kernel they
// get, and what has no graph.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "memest/graph/lower.hpp"
#include "models.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

/// DeepSeek V3, of one kind of layer.
ModelSpec deepseek(FeedForward part) {
  ModelSpec model = llama();
  model.model_type = "deepseek_v3";
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  decoder.attention = LatentAttention{.heads = 16,
                                      .q_lora_rank = 1536,
                                      .kv_lora_rank = 512,
                                      .qk_nope_head_dim = 128,
                                      .qk_rope_head_dim = 64,
                                      .v_head_dim = 128};
  decoder.position = RotaryPosition{.rotary_dim = 64};
  decoder.kinds[0].feed_forward = std::move(part);
  return model;
}

LatentAttention& latent_of(ModelSpec& model) {
  return std::get<LatentAttention>(std::get<DecoderSpec>(model.architecture).attention);
}

ModelSpec mixture() {
  return deepseek(MixtureOfExperts{.experts = 64,
                                   .top_k = 8,
                                   .expert_size = 256,
                                   .shared_size = 256,
                                   .correction_bias_buffer = true,
                                   .groups = 8,
                                   .groups_kept = 4});
}

LoweringPolicy policy() { return policy_for(Framework::transformers, AttentionKernel::sdpa); }

const Op& attention_of(const Block& block) {
  for (const Op& op : block.ops) {
    if (op.kind == OpKind::attention) return op;
  }
  throw std::runtime_error("a layer has attention");
}

std::int64_t kept_by_layer(const ModelSpec& model) {
  const Graph graph = lowered(model, policy());
  return static_cast<std::int64_t>(layer(graph).saved_bytes(false).evaluate(graph.sizes));
}

std::string refusal_of(const ModelSpec& model, const LoweringPolicy& with) {
  const auto result = lower(model, with);
  const auto* why = std::get_if<Unavailable>(&result);
  return why == nullptr ? std::string() : why->sentence;
}

}  // namespace

TEST_CASE("latent attention's products have the widths of keys and of values") {
  const Graph graph = lowered(deepseek(DenseFeedForward{.size = 4096}), policy());
  const Block block = layer(graph);
  const Op& attention = attention_of(block);
  const Expr product =
      2 * Expr(Symbol::micro_batch) * Symbol::heads * Symbol::seq_len * Symbol::seq_len;
  const Expr keys = Symbol::head_dim;
  REQUIRE(graph.sizes.at(Symbol::head_dim) == 192);
  CHECK(attention.forward.flops == product * (keys + Expr(128)));
  // Scores again, gradients of queries and keys; of probabilities and values.
  CHECK(attention.backward.flops == product * (3 * keys + Expr(2 * 128)));
}

TEST_CASE("a latent is kept in fp32, normalized and scaled; a value three times by head") {
  const ModelSpec model = deepseek(DenseFeedForward{.size = 4096});
  const std::int64_t kept = kept_by_layer(model);
  const std::int64_t tokens = policy().micro_batch * policy().seq_len;
  ModelSpec wider = model;
  latent_of(wider).kv_lora_rank += 8;
  CHECK(kept_by_layer(wider) - kept == tokens * 8 * (4 + 2 + 2));
  wider = model;
  latent_of(wider).q_lora_rank += 8;
  CHECK(kept_by_layer(wider) - kept == tokens * 8 * (4 + 2 + 2));
  // In the product that keys are taken from too, in attention's output, and by tokens.
  wider = model;
  latent_of(wider).v_head_dim += 8;
  CHECK(kept_by_layer(wider) - kept == tokens * 16 * 8 * (2 + 2 + 2));
}

TEST_CASE("values that are not as wide as keys choose the kernel") {
  LoweringPolicy on = policy();
  const auto kernel_keeps_seed = [&](std::int64_t value_dim, ComputeCapability capability) {
    ModelSpec model = deepseek(DenseFeedForward{.size = 4096});
    latent_of(model).v_head_dim = value_dim;
    on.capability = capability;
    // cuDNN keeps q, k, v, the output, its sums, seed and offset; the efficient kernel the first 5.
    return attention_of(layer(lowered(model, on))).saved.size() == 7;
  };
  CHECK(kernel_keeps_seed(128, kHopper));
  CHECK(kernel_keeps_seed(256, kHopper));
  CHECK(kernel_keeps_seed(128, kBlackwell));  // DeepSeek's sizes alone
  CHECK_FALSE(kernel_keeps_seed(96, kBlackwell));
  CHECK_FALSE(kernel_keeps_seed(128, kAmpere));  // flash attention wants them alike
  on.capability = kAmpere;
  on.implementation.attention = AttentionKernel::sdpa_flash;
  CHECK_THAT(refusal_of(deepseek(DenseFeedForward{.size = 4096}), on),
             ContainsSubstring("as wide as keys"));
}

TEST_CASE("of the groups' choice nothing is kept for the backward") {
  const Graph graph = lowered(mixture(), policy());
  const Block block = layer(graph);
  std::int64_t of_graph = 0;
  for (const Tensor& tensor : block.tensors) {
    if (!tensor.held_by_graph) continue;
    ++of_graph;
    for (const Op& op : block.ops) {
      for (const TensorId id : op.saved) CHECK(&block.tensors[id] != &tensor);
    }
  }
  CHECK(of_graph == 2);  // the experts that groups were judged by, and those of other groups
  ModelSpec one_group = mixture();
  auto& decoder = std::get<DecoderSpec>(one_group.architecture);
  auto& experts = std::get<MixtureOfExperts>(decoder.kinds[0].feed_forward);
  experts.groups = experts.groups_kept = 1;
  CHECK(kept_by_layer(one_group) == kept_by_layer(mixture()));
}

TEST_CASE("what is not known of latent attention is refused") {
  ModelSpec nameless = mixture();
  nameless.model_type.clear();
  CHECK_THAT(refusal_of(nameless, policy()), ContainsSubstring("mixtures of experts"));
  nameless = deepseek(DenseFeedForward{.size = 4096});
  nameless.model_type.clear();
  CHECK_THAT(refusal_of(nameless, policy()), ContainsSubstring("model_type"));
  ModelSpec adapted = mixture();
  adapted.adapter.emplace().targets = {"o_proj"};
  CHECK_THAT(refusal_of(adapted, policy()), ContainsSubstring("adapters"));
  LoweringPolicy prompt = policy();
  prompt.gradients = false;
  CHECK_THAT(refusal_of(mixture(), prompt), ContainsSubstring("inference"));
}

}  // namespace memest
