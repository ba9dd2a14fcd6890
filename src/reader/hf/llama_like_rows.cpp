// transformers 5.17, models/*/configuration_*.py (defaults) and modeling_*.py (structure).
#include <array>

#include "reader/hf/families.hpp"
#include "reader/hf/llama_like.hpp"

namespace memest::hf {
namespace {

constexpr Norm kRms{};
constexpr Norm kGemmaRms{.gain = NormGain::one_plus_weight};
constexpr Norm kNormOfRows{.kind = NormKind::layernorm, .bias = true};
constexpr Norm kLayerNormNoBias{.kind = NormKind::layernorm};
constexpr Switch kAttentionBias{"attention_bias"};
constexpr Switch kMlpBias{"mlp_bias"};
constexpr Switch kNormTopK{"norm_topk_prob"};
constexpr Switch kYes{{}, true};

constexpr std::array kDense = {
    // Llama has no bias unless the config asks: LlamaAttention gives attention_bias to all four
    // products, LlamaMLP mlp_bias to all three. KV heads default to the query heads.
    LlamaLike{.model_type = "llama",
              .sizes = {32000, 4096, 11008, 32, 2048},
              .heads = {{32}},
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .mlp_bias = kMlpBias},
    // Every layer slides, over 4096 tokens unless the config says null
    // (MistralConfig.sliding_window).
    LlamaLike{.model_type = "mistral",
              .sizes = {32000, 4096, 14336, 32, 131072},
              .heads = {{32, 8}},
              .window = {WindowRule::every_layer, 4096}},
    // modeling_qwen2.py writes bias=True on q, k and v and False on o_proj; no key changes that.
    LlamaLike{.model_type = "qwen2",
              .sizes = {151936, 4096, 22016, 32, 32768},
              .heads = {{32, 32}},
              .qkv_bias = kYes,
              .window = {WindowRule::from_layer, 4096}},
    // Qwen2VLTextConfig, Qwen2_5_VLTextConfig: the same layers, of the 72B's sizes.
    LlamaLike{.model_type = "qwen2_vl_text",
              .sizes = {152064, 8192, 29568, 80, 32768},
              .heads = {{64, 8}},
              .qkv_bias = kYes,
              .window = {WindowRule::from_layer, 4096}},
    LlamaLike{.model_type = "qwen2_5_vl_text",
              .sizes = {152064, 8192, 29568, 80, 32768},
              .heads = {{64, 8}},
              .qkv_bias = kYes,
              .window = {WindowRule::from_layer, 4096}},
    // Qwen3Attention norms q and k over head_dim, "unlike olmo, only on the head dim".
    LlamaLike{.model_type = "qwen3",
              .sizes = {151936, 4096, 22016, 32, 32768},
              .heads = {{32, 32, 128}},
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .qk_norm = QkNorm::per_head,
              .window = {WindowRule::from_layer, 4096}},
    // PhiAttention and PhiMLP, like the head, write bias=True everywhere. One input_layernorm feeds
    // both branches, and q_layernorm is a plain LayerNorm of head_dim.
    LlamaLike{.model_type = "phi",
              .sizes = {51200, 2048, 8192, 24, 2048},
              .heads = {{32}},
              .activation = "gelu_new",
              .gated = false,
              .qkv_bias = kYes,
              .output_bias = kYes,
              .mlp_bias = kYes,
              .head_bias = kYes,
              .norm = kNormOfRows,
              .layout = BlockLayout::parallel_one_norm,
              .qk_norm = QkNorm::per_head,
              .qk_normed = {"qk_layernorm"},
              .qk_norm_kind = kNormOfRows,
              .rotary = {.default_factor = 0.5, .partial = true}},
    // qkv_proj and gate_up_proj are one product each, without a bias. Phi3Config gives no default
    // window.
    LlamaLike{.model_type = "phi3",
              .sizes = {32064, 3072, 8192, 32, 4096},
              .heads = {{32}},
              .fused_gate_up = true,
              .qkv = QkvLayout::fused,
              .rotary = {.partial = true},
              .window = {WindowRule::every_layer}},
    // GemmaRMSNorm multiplies by 1 + weight. head_dim 256 is its own: 16 · 256 = 4096 beside a
    // hidden size of 3072.
    LlamaLike{.model_type = "gemma",
              .sizes = {256000, 3072, 24576, 28, 8192},
              .heads = {{16, 16, 256}},
              .tied = true,
              .activation = "gelu_pytorch_tanh",
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .norm = kGemmaRms,
              .gemma_embedding = true},
    // Gemma2DecoderLayer norms what goes into and what comes out of either branch: four norms a
    // layer. It caps scores at 50 and logits at 30, and slides on every second layer, the first one
    // included.
    LlamaLike{.model_type = "gemma2",
              .sizes = {256000, 2304, 9216, 26, 8192},
              .heads = {{8, 4, 256}},
              .tied = true,
              .activation_key = "hidden_activation",
              .activation = "gelu_pytorch_tanh",
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .norm = kGemmaRms,
              .layout = BlockLayout::sandwich,
              .window = {WindowRule::pattern, 4096, 2},
              .attention_softcap = 50.0,
              .logit_softcap = 30.0,
              .gemma_embedding = true},
    // Gemma3RotaryEmbedding keeps a table for each layer type, because sliding layers rotate with a
    // base of their own. Five layers slide, the sixth sees everything (_sliding_window_pattern 6).
    LlamaLike{.model_type = "gemma3_text",
              .sizes = {262208, 2304, 9216, 26, 131072},
              .heads = {{8, 4, 256}},
              .tied = true,
              .activation_key = "hidden_activation",
              .activation = "gelu_pytorch_tanh",
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .norm = kGemmaRms,
              .layout = BlockLayout::sandwich,
              .qk_norm = QkNorm::per_head,
              .qk_norm_kind = kGemmaRms,
              .table_a_layer_type = true,
              .window = {WindowRule::pattern, 4096, 6},
              .gemma_embedding = true},
    // OlmoLayerNorm has neither weight nor bias: F.layer_norm(x, shape, None, None).
    LlamaLike{.model_type = "olmo",
              .sizes = {50304, 4096, 11008, 32, 2048},
              .heads = {{32}},
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .norm = {.kind = NormKind::layernorm, .gain = NormGain::none}},
    // Olmo2DecoderLayer norms only what leaves a branch, and q_norm spans heads · head_dim at once:
    // 4096 weights, where Qwen3 has 128.
    LlamaLike{.model_type = "olmo2",
              .sizes = {50304, 4096, 11008, 32, 2048},
              .heads = {{32}},
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .layout = BlockLayout::output_norm,
              .qk_norm = QkNorm::full_width},
    // As OLMo 2, with three sliding layers and then a full one.
    LlamaLike{.model_type = "olmo3",
              .sizes = {50304, 4096, 11008, 32, 2048},
              .heads = {{32}},
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .layout = BlockLayout::output_norm,
              .qk_norm = QkNorm::full_width,
              .table_a_layer_type = true,
              .window = {WindowRule::pattern, 4096, 4}},
    // head_dim is no key of StableLmConfig. StableLmLayerNormPerHead owns a norm for each head,
    // none of them with a bias: 32 modules where Phi has one.
    LlamaLike{.model_type = "stablelm",
              .sizes = {50304, 2560, 6912, 32, 4096},
              .heads = {.defaults = {32, 32}, .head_dim_key = false},
              .qkv_bias = {"use_qkv_bias"},
              .norm = kNormOfRows,
              .parallel_one_norm = {"use_parallel_residual"},
              .qk_norm = QkNorm::per_head_own,
              .qk_normed = {"qk_layernorm"},
              .qk_norm_kind = kLayerNormNoBias,
              .rotary = {.default_factor = 0.25, .partial = true}},
    // One key, use_bias, decides for attention and MLP alike; the MLP is c_fc and c_proj, not
    // gated.
    LlamaLike{.model_type = "starcoder2",
              .sizes = {49152, 3072, 12288, 30, 4096},
              .heads = {{24, 2}},
              .tied = true,
              .activation = "gelu_pytorch_tanh",
              .gated = false,
              .qkv_bias = {"use_bias", true},
              .output_bias = {"use_bias", true},
              .mlp_bias = {"use_bias", true},
              .norm = kNormOfRows,
              .window = {WindowRule::every_layer}},
    // CohereLayerNorm keeps no bias; its q_norm has a weight of (heads, head_dim). The logits are
    // multiplied by logit_scale: one more tensor as wide as the vocabulary.
    LlamaLike{.model_type = "cohere",
              .sizes = {256000, 8192, 22528, 40, 8192},
              .heads = {{64}},
              .tied = true,
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .norm = kLayerNormNoBias,
              .layout = BlockLayout::parallel_one_norm,
              .qk_norm = QkNorm::per_head_own,
              .qk_normed = {"use_qk_norm"},
              .qk_norm_kind = kLayerNormNoBias,
              .scaled_logits = true},
    // Cohere2Attention rotates only where sliding_window is not None: every fourth layer has no
    // position at all.
    LlamaLike{.model_type = "cohere2",
              .sizes = {256000, 8192, 22528, 40, 8192},
              .heads = {{64}},
              .tied = true,
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .norm = kLayerNormNoBias,
              .layout = BlockLayout::parallel_one_norm,
              .rotation = RotationRule::sliding_layers,
              .window = {WindowRule::pattern, 4096, 4},
              .scaled_logits = true},
    // Llama with four multipliers: embedding_multiplier, attention_multiplier, residual_multiplier
    // on each branch, and logits / logits_scaling.
    LlamaLike{.model_type = "granite",
              .sizes = {32000, 4096, 11008, 32, 2048},
              .heads = {{32}},
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .mlp_bias = kMlpBias,
              .granite_scales = true},
    // SmolLM3Config leaves every fourth layer unrotated (no_rope_layer_interval); only such layers
    // slide, and only where use_sliding_window says so.
    LlamaLike{.model_type = "smollm3",
              .sizes = {128256, 2048, 11008, 36, 32768},
              .heads = {{16, 4}},
              .tied = true,
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .mlp_bias = kMlpBias,
              .rotation = RotationRule::listed_layers,
              .window = {WindowRule::unrotated}},
    // GlmMLP has one gate_up_proj; o_proj writes bias=False whatever attention_bias says. Half of
    // each head rotates.
    LlamaLike{.model_type = "glm",
              .sizes = {151552, 4096, 13696, 40, 131072},
              .heads = {{32, 2, 128}},
              .fused_gate_up = true,
              .qkv_bias = {"attention_bias", true},
              .rotary = {.default_factor = 0.5, .partial = true}},
    // As GLM, with post_self_attn_layernorm and post_mlp_layernorm on what leaves the branches.
    LlamaLike{.model_type = "glm4",
              .sizes = {151552, 4096, 13696, 40, 131072},
              .heads = {{32, 2, 128}},
              .fused_gate_up = true,
              .qkv_bias = {"attention_bias", true},
              .layout = BlockLayout::sandwich,
              .rotary = {.default_factor = 0.5, .partial = true}},
    // use_bias, off by default, decides for attention and MLP alike.
    LlamaLike{.model_type = "ernie4_5",
              .sizes = {103424, 1024, 3072, 18, 131072},
              .heads = {{16, 2, 128}},
              .tied = true,
              .qkv_bias = {"use_bias"},
              .output_bias = {"use_bias"},
              .mlp_bias = {"use_bias"}},
    // NemotronLayerNorm1P calls layer_norm with weight + 1, and NemotronMLP is up_proj, relu²,
    // down_proj without a gate.
    LlamaLike{.model_type = "nemotron",
              .sizes = {256000, 6144, 24576, 32, 4096},
              .heads = {{48}},
              .activation = "relu2",
              .gated = false,
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .mlp_bias = kMlpBias,
              .norm = {NormKind::layernorm, NormGain::one_plus_weight, true},
              .rotary = {.default_factor = 0.5, .partial = true}},
};

constexpr std::array kMixtures = {
    // MixtralTopKRouter always divides the chosen weights by their sum; no key switches that off.
    LlamaLike{.model_type = "mixtral",
              .sizes = {32000, 4096, 14336, 32, 131072},
              .heads = {{32, 8}},
              .window = {WindowRule::every_layer},
              .moe = MoeKeys{.experts = 8, .top_k = 2, .size = 14336, .weights_over_sum = kYes}},
    // A shared expert of 5632 runs beside the routed ones, under a gate of its own
    // (shared_expert_gate, one output).
    LlamaLike{.model_type = "qwen2_moe",
              .sizes = {151936, 2048, 5632, 24, 32768},
              .heads = {{16, 16}},
              .qkv_bias = {"qkv_bias", true},
              .window = {WindowRule::even_before, 4096},
              .moe = MoeKeys{.experts = 60,
                             .top_k = 4,
                             .size_key = "moe_intermediate_size",
                             .size = 1408,
                             .shared_size = 5632,
                             .dense_layers = true,
                             .weights_over_sum = kNormTopK}},
    // Qwen3MoeConfig sets sliding_window to None unless use_sliding_window; layer_types is no key
    // of it.
    LlamaLike{.model_type = "qwen3_moe",
              .sizes = {151936, 2048, 6144, 24, 32768},
              .heads = {{32, 4}},
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .qk_norm = QkNorm::per_head,
              .window = {WindowRule::every_layer_if_used, 4096},
              .moe = MoeKeys{.experts = 128,
                             .top_k = 8,
                             .size_key = "moe_intermediate_size",
                             .size = 768,
                             .dense_layers = true,
                             .weights_over_sum = kNormTopK}},
    // GptOssExperts has biases on gate_up_proj and down_proj, GptOssAttention a learned sink for
    // each head; every second layer slides over 128 tokens.
    LlamaLike{.model_type = "gpt_oss",
              .sizes = {201088, 2880, 2880, 36, 131072},
              .heads = {{64, 8, 64}},
              .qkv_bias = {"attention_bias", true},
              .output_bias = {"attention_bias", true},
              .window = {WindowRule::pattern, 128, 2},
              .moe = MoeKeys{.experts = 128, .top_k = 4, .size = 2880, .biases = true},
              .sinks = true},
    // PhimoeDecoderLayer norms with nn.LayerNorm in spite of rms_norm_eps, and sparsemixer routes
    // to two.
    LlamaLike{.model_type = "phimoe",
              .sizes = {32064, 4096, 6400, 32, 131072},
              .heads = {{32, 8}},
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .head_bias = {"lm_head_bias"},
              .norm = kNormOfRows,
              .window = {WindowRule::every_layer},
              .moe = MoeKeys{.experts = 16, .top_k = 2, .size = 6400}},
    LlamaLike{
        // OlmoeRMSNorm norms q over the hidden size and k over all KV heads together.
        .model_type = "olmoe",
        .sizes = {50304, 2048, 2048, 16, 4096},
        .heads = {{16}},
        .qkv_bias = kAttentionBias,
        .output_bias = kAttentionBias,
        .qk_norm = QkNorm::full_width,
        .moe = MoeKeys{.experts = 64, .top_k = 8, .size = 2048, .weights_over_sum = kNormTopK}},
    // GraniteMoeConfig writes the experts' width as intermediate_size, like Mixtral's.
    LlamaLike{.model_type = "granitemoe",
              .sizes = {32000, 4096, 11008, 32, 2048},
              .heads = {{32}},
              .qkv_bias = kAttentionBias,
              .output_bias = kAttentionBias,
              .moe = MoeKeys{.experts = 8, .top_k = 2, .size = 11008},
              .granite_scales = true},
};

template <const auto& kRows, std::size_t kRow>
ReadModel read_row(ConfigReader& config) {
  return {Family::decoder, read_llama_like(config, kRows[kRow])};
}

template <const auto& kRows, std::size_t... kRow>
constexpr std::array<ModelType, sizeof...(kRow)> types_of(std::index_sequence<kRow...>) {
  return {ModelType{kRows[kRow].model_type, read_row<kRows, kRow>}...};
}

constexpr auto kDenseTypes = types_of<kDense>(std::make_index_sequence<kDense.size()>());
constexpr auto kMixtureTypes = types_of<kMixtures>(std::make_index_sequence<kMixtures.size()>());

}  // namespace

std::span<const ModelType> llama_like_types() { return kDenseTypes; }
std::span<const ModelType> mixture_types() { return kMixtureTypes; }

}  // namespace memest::hf
