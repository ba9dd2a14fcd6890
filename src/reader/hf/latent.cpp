// DeepSeek V2 and V3: latent attention, dense layers first, then mixtures of experts.
// transformers 5.17, models/deepseek_v2 and deepseek_v3.
#include <array>
#include <string>

#include "reader/hf/decoder_config.hpp"
#include "reader/hf/families.hpp"

namespace memest::hf {
namespace {

struct DeepSeek {
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t layers = 0;
  std::int64_t max_positions = 0;
  std::int64_t heads = 0;
  MoeKeys moe;
  std::int64_t shared_experts = 0;
  std::int64_t dense_layers = 0;
  std::int64_t groups = 0;  ///< 0: only where topk_method says so
  std::int64_t groups_kept = 0;
  bool correction_bias = false;  ///< V3 routes with a bias an expert
};

constexpr DeepSeek kV2{
    .vocab = 102400,
    .hidden = 4096,
    .ffn = 11008,
    .layers = 32,
    .max_positions = 2048,
    .heads = 32,
    .moe = {.experts = 64, .size_key = "moe_intermediate_size", .size = 1407},
    .shared_experts = 2,
};
constexpr DeepSeek kV3{
    .vocab = 129280,
    .hidden = 7168,
    .ffn = 18432,
    .layers = 61,
    .max_positions = 4096,
    .heads = 128,
    .moe = {.experts = 256,
            .top_k = 8,
            .size_key = "moe_intermediate_size",
            .size = 2048,
            .weights_over_sum = {"norm_topk_prob", true}},
    .shared_experts = 1,
    .dense_layers = 3,
    .groups = 8,
    .groups_kept = 4,
    .correction_bias = true,
};

LatentAttention read_attention(ConfigReader& config, const DeepSeek& defaults) {
  // DeepseekV3Attention: `if self.q_lora_rank is None` one q_proj, else q_a_proj, a norm and
  // q_b_proj. A written null therefore means another thing than a key left out, which is 1536.
  const bool direct_queries =
      config.has({"q_lora_rank"}) && config.find({"q_lora_rank"}) == nullptr;
  return {
      .heads = config.size({"num_attention_heads"}, defaults.heads),
      .q_lora_rank = config.size({"q_lora_rank"}, direct_queries ? 0 : 1536),
      .kv_lora_rank = config.size({"kv_lora_rank"}, 512),
      .qk_nope_head_dim = config.size({"qk_nope_head_dim"}, 128),
      .qk_rope_head_dim = config.size({"qk_rope_head_dim"}, 64),
      .v_head_dim = config.size({"v_head_dim"}, 128),
      .bias = config.flag({"attention_bias"}, false),
      // V2 views neighbours as complex numbers always, V3 asks rope_interleave.
      .rotates_neighbours = !defaults.correction_bias || config.flag({"rope_interleave"}, true)};
}

/// V3 always asks for groups; V2 does so where `topk_method` is group_limited_greedy.
void read_groups(ConfigReader& config, const DeepSeek& defaults, MixtureOfExperts& moe) {
  const bool always = defaults.groups > 0;
  if (!always) {
    const std::string method = config.word({"topk_method"}, "greedy");
    if (method != "greedy" && method != "group_limited_greedy") {
      config.error({"topk_method"}, "unknown 'topk_method' '" + method + "'",
                   "known here: greedy, group_limited_greedy");
    }
    if (method != "group_limited_greedy") return;
  }
  // A group count of zero is refused: the class would divide by it.
  moe.groups = config.size({"n_group"}, always ? defaults.groups : 1);
  moe.groups_kept = config.size({"topk_group"}, always ? defaults.groups_kept : 1);
  if (!config.ok()) return;
  if (moe.experts % moe.groups != 0) {
    config.error({"n_group"}, std::to_string(moe.experts) +
                                  " experts cannot be parted evenly into " +
                                  std::to_string(moe.groups) + " groups");
  } else if (moe.groups_kept > moe.groups) {
    config.error({"topk_group"}, "a token cannot use " + std::to_string(moe.groups_kept) + " of " +
                                     std::to_string(moe.groups) + " groups");
  }
}

MixtureOfExperts read_moe(ConfigReader& config, const DeepSeek& defaults,
                          ActivationFunction activation) {
  MoeKeys keys = defaults.moe;
  if (keys.top_k == 0 && config.find({"num_experts_per_tok"}) == nullptr) {
    config.error({"num_experts_per_tok"}, "'num_experts_per_tok' is missing and has no default");
    keys.top_k = 1;
  }
  MixtureOfExperts moe = read_experts(config, keys, activation);
  // DeepseekV3MoE.shared_experts is one MLP, n_shared_experts times as wide: 2 · 1407 in V2.
  moe.shared_size = moe.expert_size * config.count({"n_shared_experts"}, defaults.shared_experts);
  moe.shared_bias = !defaults.correction_bias && config.flag({"mlp_bias"}, false);
  // DeepseekV3TopkRouter registers e_score_correction_bias, one number an expert.
  moe.correction_bias_buffer = defaults.correction_bias;
  read_groups(config, defaults, moe);
  return moe;
}

DecoderSpec read_deepseek(ConfigReader& config, const DeepSeek& defaults) {
  DecoderSpec decoder;
  decoder.hidden_size = config.size({"hidden_size"}, defaults.hidden);
  decoder.embedding_size = decoder.hidden_size;
  decoder.vocab_size = config.size({"vocab_size"}, defaults.vocab);
  decoder.max_positions = config.size({"max_position_embeddings"}, defaults.max_positions);
  const LatentAttention attention = read_attention(config, defaults);
  decoder.attention = attention;
  decoder.position = read_rotary(config, attention.qk_rope_head_dim, {});
  decoder.dropout.attention = config.probability({"attention_dropout"}, 0);
  const ActivationFunction activation = read_activation(config, {"hidden_act"}, "silu");
  const LayerKind dense{.feed_forward = DenseFeedForward{
                            .size = config.size({"intermediate_size"}, defaults.ffn),
                            .activation = activation,
                            .bias = !defaults.correction_bias && config.flag({"mlp_bias"}, false)}};
  const LayerKind sparse{.feed_forward = read_moe(config, defaults, activation)};
  const std::int64_t layers = read_layers(config, {"num_hidden_layers"}, defaults.layers);
  const std::int64_t first_sparse = config.count({"first_k_dense_replace"}, defaults.dense_layers);
  std::vector<LayerKind> kinds;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    // DeepseekV3DecoderLayer: `if layer_idx >= config.first_k_dense_replace` experts.
    kinds.push_back(layer < first_sparse ? dense : sparse);
  }
  set_layers(decoder, kinds);
  read_decoder_head(config, false, decoder);
  return decoder;
}

ReadModel read_v2(ConfigReader& config) { return {Family::decoder, read_deepseek(config, kV2)}; }
ReadModel read_v3(ConfigReader& config) { return {Family::decoder, read_deepseek(config, kV3)}; }

constexpr std::array kLatentTypes = {ModelType{"deepseek_v2", read_v2},
                                     ModelType{"deepseek_v3", read_v3}};

}  // namespace

std::span<const ModelType> latent_types() { return kLatentTypes; }

}  // namespace memest::hf
