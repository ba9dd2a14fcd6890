// The GPT-2 family and its cousins: GPT-2, GPT-BigCode, GPT-Neo, GPT-J, CodeGen, GPT-NeoX, OPT,
// BLOOM, MPT, Falcon. transformers 5.17, models/*/configuration_*.py (defaults) and modeling_*.py
// (structure).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "reader/hf/decoder_config.hpp"
#include "reader/hf/families.hpp"

namespace memest::hf {
namespace {

constexpr Norm kLayerNorm{.kind = NormKind::layernorm, .bias = true};

/// The sizes every family has, under its own keys and defaults.
struct GptSizes {
  Keys hidden_keys;
  std::int64_t hidden = 0;
  Keys head_keys;
  std::int64_t heads = 0;
  std::int64_t vocab = 0;
};

DecoderSpec read_sizes(ConfigReader& config, const GptSizes& sizes) {
  DecoderSpec decoder;
  decoder.hidden_size = config.size(sizes.hidden_keys, sizes.hidden);
  decoder.embedding_size = decoder.hidden_size;
  decoder.vocab_size = config.size({"vocab_size"}, sizes.vocab);
  decoder.norm = kLayerNorm;
  const std::int64_t heads = config.size(sizes.head_keys, sizes.heads);
  decoder.attention = SoftmaxAttention{
      .heads = heads,
      .kv_heads = heads,
      .head_dim = whole_head_dim(config, sizes.head_keys, decoder.hidden_size, heads)};
  return decoder;
}

SoftmaxAttention& attention_of(DecoderSpec& decoder) {
  return std::get<SoftmaxAttention>(decoder.attention);
}

void set_biases(SoftmaxAttention& attention, bool bias) {
  attention.q_bias = bias;
  attention.kv_bias = bias;
  attention.output_bias = bias;
}

void set_equal_layers(ConfigReader& config, DecoderSpec& decoder, std::int64_t layers,
                      const DenseFeedForward& feed_forward) {
  if (config.flag({"add_cross_attention"}, false)) {
    // GPT2Block gets crossattention and ln_cross_attn as well, which no program here follows.
    config.error({"add_cross_attention"}, "a decoder with cross-attention is not known");
  }
  decoder.kinds = {{.feed_forward = feed_forward}};
  decoder.order = {{0, layers}};
}

const Keys kGptHidden = {"n_embd", "hidden_size"};
const Keys kGptHeads = {"n_head", "num_attention_heads"};
const Keys kGptLayers = {"n_layer", "num_hidden_layers"};
const Keys kGptPositions = {"n_positions", "max_position_embeddings"};

Dropout gpt_dropout(ConfigReader& config, double fallback) {
  const double residual = config.probability({"resid_pdrop"}, fallback);
  return {.embedding = config.probability({"embd_pdrop"}, fallback),
          .attention = config.probability({"attn_pdrop"}, fallback),
          .residual = residual};
}

DenseFeedForward gpt_feed_forward(ConfigReader& config, const DecoderSpec& decoder,
                                  std::string_view activation) {
  // GPT2Block: n_inner if not None else 4 · hidden_size.
  return {.size = config.size({"n_inner"}, 4 * decoder.hidden_size),
          .activation = read_activation(config, {"activation_function"}, activation),
          .gated = false,
          .bias = true};
}

DecoderSpec read_gpt2_sizes(ConfigReader& config, std::string_view activation) {
  DecoderSpec decoder = read_sizes(config, {kGptHidden, 768, kGptHeads, 12, 50257});
  decoder.max_positions = config.size(kGptPositions, 1024);
  decoder.position = LearnedPosition{decoder.max_positions};
  // Conv1D c_attn of 3 · embed_dim outputs, with a bias like c_proj.
  attention_of(decoder).layout = QkvLayout::fused;
  set_biases(attention_of(decoder), true);
  decoder.dropout = gpt_dropout(config, 0.1);
  set_equal_layers(config, decoder, read_layers(config, kGptLayers, 12),
                   gpt_feed_forward(config, decoder, activation));
  read_decoder_head(config, true, decoder);
  return decoder;
}

ReadModel read_gpt2(ConfigReader& config) {
  return {Family::decoder, read_gpt2_sizes(config, "gelu_new")};
}

ReadModel read_gpt_bigcode(ConfigReader& config) {
  DecoderSpec decoder = read_gpt2_sizes(config, "gelu_pytorch_tanh");
  // GPTBigCodeAttention: c_attn makes heads · head_dim + 2 · head_dim, one key and one value for
  // all.
  if (config.flag({"multi_query"}, true)) attention_of(decoder).kv_heads = 1;
  // GPTBigCodeModel keeps one triangle for all layers: 8192² B = 64 MiB at n_positions 8192.
  decoder.buffers.push_back({.name = "bias",
                             .shape = {decoder.max_positions, decoder.max_positions},
                             .dtype = DType::boolean});
  return {Family::decoder, std::move(decoder)};
}

/// `attention_types`: [[["global", "local"], 12]] is twelve times a global and a local layer.
std::vector<bool> read_local_layers(ConfigReader& config, std::int64_t layers) {
  const Keys keys = {"attention_types"};
  const Value* const types = config.find(keys);
  std::vector<bool> local;
  if (types == nullptr) {
    // GPTNeoConfig.attention_types: [[["global", "local"], 12]].
    for (int pair = 0; pair < 12; ++pair) local.insert(local.end(), {false, true});
  } else {
    for (const Value& item : types->items) {
      if (item.items.size() != 2) break;
      const std::int64_t repeat = std::atoll(item.items[1].text.c_str());
      for (std::int64_t time = 0; time < std::min(repeat, layers); ++time) {
        for (const Value& kind : item.items[0].items) local.push_back(kind.text == "local");
      }
    }
  }
  if (static_cast<std::int64_t>(local.size()) != layers) {
    config.error(keys, "'attention_types' describes " + std::to_string(local.size()) +
                           " layers of " + std::to_string(layers));
    local.assign(static_cast<std::size_t>(layers), false);
  }
  return local;
}

ReadModel read_gpt_neo(ConfigReader& config) {
  DecoderSpec decoder =
      read_sizes(config, {{"hidden_size"}, 2048, {"num_heads", "num_attention_heads"}, 16, 50257});
  decoder.max_positions = config.size({"max_position_embeddings"}, 2048);
  decoder.position = LearnedPosition{decoder.max_positions};
  // GPTNeoSelfAttention: k_proj, v_proj and q_proj without a bias, out_proj with one.
  attention_of(decoder).output_bias = true;
  decoder.dropout = {.embedding = config.probability({"embed_dropout"}, 0),
                     .attention = config.probability({"attention_dropout"}, 0),
                     .residual = config.probability({"resid_dropout"}, 0)};
  const DenseFeedForward feed_forward{
      .size = config.size({"intermediate_size"}, 4 * decoder.hidden_size),
      .activation = read_activation(config, {"activation_function"}, "gelu_new"),
      .gated = false,
      .bias = true};
  const std::int64_t layers = read_layers(config, {"num_layers", "num_hidden_layers"}, 24);
  const std::int64_t window = config.size({"window_size"}, 256);
  std::vector<LayerKind> kinds;
  for (const bool local : read_local_layers(config, layers)) {
    kinds.push_back({.sliding_window = local ? std::optional(window) : std::nullopt,
                     .feed_forward = feed_forward});
  }
  set_layers(decoder, kinds);
  // Each GPTNeoSelfAttention keeps a triangle of its own: 24 layers of 2048² B are 96 MiB.
  decoder.buffers.push_back({.name = "attn.attention.bias",
                             .shape = {1, 1, decoder.max_positions, decoder.max_positions},
                             .dtype = DType::boolean,
                             .count = layers});
  read_decoder_head(config, true, decoder);
  return {Family::decoder, std::move(decoder)};
}

/// GPT-J and CodeGen differ in how queries, keys and values are stored.
DecoderSpec read_gptj_sizes(ConfigReader& config, QkvLayout layout) {
  DecoderSpec decoder = read_sizes(config, {kGptHidden, 4096, kGptHeads, 16, 50400});
  attention_of(decoder).layout = layout;
  decoder.max_positions = config.size(kGptPositions, 2048);
  // GPTJAttention: pos_embd_dim = rotary_dim or embed_dim, so that null rotates everything.
  const bool null_rotary = config.has({"rotary_dim"}) && config.find({"rotary_dim"}) == nullptr;
  const std::int64_t rotary_dim =
      config.size({"rotary_dim"}, null_rotary ? decoder.hidden_size : 64);
  // No GPTJRotaryEmbedding exists: each GPTJAttention gathers from its own embed_positions, [2048,
  // 64] · 4 B = 512 KiB.
  decoder.position = RotaryPosition{.rotary_dim = rotary_dim, .tables = 0};
  decoder.layout = BlockLayout::parallel_one_norm;
  decoder.dropout = gpt_dropout(config, 0);
  // GPTJForCausalLM.lm_head is nn.Linear with its bias.
  decoder.head_bias = true;
  const std::int64_t layers = read_layers(config, kGptLayers, 28);
  set_equal_layers(config, decoder, layers, gpt_feed_forward(config, decoder, "gelu_new"));
  decoder.buffers.push_back({.name = "attn.embed_positions",
                             .shape = {decoder.max_positions, rotary_dim},
                             .count = layers});
  read_decoder_head(config, false, decoder);
  return decoder;
}

ReadModel read_gptj(ConfigReader& config) {
  return {Family::decoder, read_gptj_sizes(config, QkvLayout::separate)};
}

ReadModel read_codegen(ConfigReader& config) {
  return {Family::decoder, read_gptj_sizes(config, QkvLayout::fused)};
}

ReadModel read_gpt_neox(ConfigReader& config) {
  DecoderSpec decoder =
      read_sizes(config, {{"hidden_size"}, 6144, {"num_attention_heads"}, 64, 50432});
  decoder.max_positions = config.size({"max_position_embeddings"}, 2048);
  SoftmaxAttention& attention = attention_of(decoder);
  attention.layout = QkvLayout::fused;
  // GPTNeoXAttention: query_key_value and dense alike.
  set_biases(attention, config.flag({"attention_bias"}, true));
  decoder.position =
      read_rotary(config, attention.head_dim, {.default_factor = 0.25, .partial = true});
  // GPTNeoXLayer: x + attn(ln1(x)) + mlp(ln2(x)), or one after the other.
  decoder.layout = config.flag({"use_parallel_residual"}, true) ? BlockLayout::parallel_two_norms
                                                                : BlockLayout::pre_norm;
  // GPTNeoXModel.emb_dropout, post_attention_dropout and post_mlp_dropout have one probability.
  const double hidden_dropout = config.probability({"hidden_dropout"}, 0);
  decoder.dropout = {.embedding = hidden_dropout,
                     .attention = config.probability({"attention_dropout"}, 0),
                     .residual = hidden_dropout};
  set_equal_layers(config, decoder, read_layers(config, {"num_hidden_layers"}, 44),
                   {.size = config.size({"intermediate_size"}, 24576),
                    .activation = read_activation(config, {"hidden_act"}, "gelu"),
                    .gated = false,
                    .bias = true});
  read_decoder_head(config, false, decoder);
  return {Family::decoder, std::move(decoder)};
}

ReadModel read_opt(ConfigReader& config) {
  DecoderSpec decoder =
      read_sizes(config, {{"hidden_size"}, 768, {"num_attention_heads"}, 12, 50272});
  decoder.max_positions = config.size({"max_position_embeddings"}, 2048);
  // OPTLearnedPositionalEmbedding.offset: 2050 rows for 2048 positions.
  decoder.position = LearnedPosition{decoder.max_positions + 2};
  // OPT-350M embeds into 512 and projects to 1024 (OPTDecoder.project_in), and back.
  decoder.embedding_size = config.size({"word_embed_proj_dim"}, decoder.hidden_size);
  const bool bias = config.flag({"enable_bias"}, true);
  set_biases(attention_of(decoder), bias);
  // OPTDecoderLayer hands the key to both of its norms, OPTDecoder to final_layer_norm.
  if (!config.flag({"layer_norm_elementwise_affine"}, true)) {
    decoder.norm = {.kind = NormKind::layernorm, .gain = NormGain::none};
  }
  // OPT-350M alone norms after the branch, and then has no final_layer_norm either
  // (OPTDecoder.__init__).
  const bool norm_first = config.flag({"do_layer_norm_before"}, true);
  decoder.layout = norm_first ? BlockLayout::pre_norm : BlockLayout::post_norm;
  decoder.final_norm = norm_first && !config.flag({"_remove_final_layer_norm"}, false);
  decoder.dropout = {.attention = config.probability({"attention_dropout"}, 0),
                     .residual = config.probability({"dropout"}, 0.1)};
  set_equal_layers(config, decoder, read_layers(config, {"num_hidden_layers"}, 12),
                   {.size = config.size({"ffn_dim"}, 3072),
                    .activation = read_activation(config, {"activation_function"}, "relu"),
                    .gated = false,
                    .bias = bias});
  read_decoder_head(config, true, decoder);
  return {Family::decoder, std::move(decoder)};
}

ReadModel read_bloom(ConfigReader& config) {
  DecoderSpec decoder = read_sizes(config, {{"n_embed", "hidden_size"}, 64, kGptHeads, 8, 250880});
  attention_of(decoder).layout = QkvLayout::fused;
  set_biases(attention_of(decoder), true);
  decoder.position = AlibiPosition{};
  // BloomModel.word_embeddings_layernorm.
  decoder.embedding_norm = true;
  decoder.dropout = {.attention = config.probability({"attention_dropout"}, 0),
                     .residual = config.probability({"hidden_dropout"}, 0)};
  set_equal_layers(config, decoder, read_layers(config, kGptLayers, 2),
                   {.size = 4 * decoder.hidden_size,
                    // No key of the config: BloomGelu.forward applies GeLUFunction, a
                    // torch.autograd.Function that saves only its input.
                    .activation = ActivationFunction::gelu_bloom,
                    .gated = false,
                    .bias = true});
  read_decoder_head(config, true, decoder);
  return {Family::decoder, std::move(decoder)};
}

ReadModel read_mpt(ConfigReader& config) {
  DecoderSpec decoder = read_sizes(
      config, {{"d_model", "hidden_size"}, 2048, {"n_heads", "num_attention_heads"}, 16, 50368});
  // MptBlock writes norm_1.bias = None, "backward compatibility with weights on the Hub".
  decoder.norm = {.kind = NormKind::layernorm};
  attention_of(decoder).layout = QkvLayout::fused;
  decoder.position = AlibiPosition{};
  decoder.max_positions = config.size({"max_seq_len"}, 2048);
  ConfigReader attention = config.section("attn_config");
  // The class drops with attention's probability everywhere, and with no other.
  const double probability = attention.probability({"attn_pdrop"}, 0);
  decoder.dropout = {.attention = probability, .residual = probability};
  // The class writes 4 · d_model whatever expansion_ratio says.
  set_equal_layers(
      config, decoder, read_layers(config, {"n_layers", "num_hidden_layers"}, 24),
      {.size = 4 * decoder.hidden_size, .activation = ActivationFunction::gelu, .gated = false});
  read_decoder_head(config, true, decoder);
  return {Family::decoder, std::move(decoder)};
}

void read_falcon_heads(ConfigReader& config, bool new_architecture, SoftmaxAttention& attention) {
  const Keys keys = {"num_kv_heads"};
  attention.layout = QkvLayout::fused;
  if (new_architecture) {
    // FalconConfig: num_kv_heads is num_attention_heads where None.
    attention.kv_heads = config.size(keys, attention.heads);
    check_grouping(config, keys, attention);
  } else if (config.flag({"multi_query"}, true)) {
    attention.kv_heads = 1;
  }
}

ReadModel read_falcon(ConfigReader& config) {
  DecoderSpec decoder =
      read_sizes(config, {{"n_embed", "hidden_size"}, 4544, {"num_attention_heads"}, 71, 65024});
  decoder.max_positions = config.size({"max_position_embeddings"}, 2048);
  const bool new_architecture = config.flag({"new_decoder_architecture"}, false);
  SoftmaxAttention& attention = attention_of(decoder);
  read_falcon_heads(config, new_architecture, attention);
  const bool bias = config.flag({"bias"}, false);
  set_biases(attention, bias);
  if (config.flag({"alibi"}, false)) {
    decoder.position = AlibiPosition{};
    // The class makes its rotary frequencies all the same.
    decoder.buffers.push_back(
        {.name = "rotary_emb.inv_freq", .shape = {(attention.head_dim + 1) / 2}, .count = 2});
  } else {
    decoder.position = read_rotary(config, attention.head_dim, {});
  }
  // FalconDecoderLayer: num_ln_in_parallel_attn None is 2 with the new architecture (ln_attn and
  // ln_mlp), else one input_layernorm feeds both branches.
  const std::int64_t parallel_norms =
      config.size({"num_ln_in_parallel_attn"}, new_architecture ? 2 : 1);
  if (!config.flag({"parallel_attn"}, true)) {
    decoder.layout = BlockLayout::pre_norm;
  } else {
    decoder.layout =
        parallel_norms == 2 ? BlockLayout::parallel_two_norms : BlockLayout::parallel_one_norm;
  }
  decoder.dropout = {.attention = config.probability({"attention_dropout"}, 0),
                     .residual = config.probability({"hidden_dropout"}, 0)};
  set_equal_layers(config, decoder, read_layers(config, {"num_hidden_layers"}, 32),
                   {.size = config.size({"ffn_hidden_size"}, 4 * decoder.hidden_size),
                    .activation = read_activation(config, {"activation"}, "gelu"),
                    .gated = false,
                    .bias = bias});
  read_decoder_head(config, true, decoder);
  return {Family::decoder, std::move(decoder)};
}

constexpr std::array kGptTypes = {
    ModelType{"gpt2", read_gpt2},       ModelType{"gpt_bigcode", read_gpt_bigcode},
    ModelType{"gpt_neo", read_gpt_neo}, ModelType{"gptj", read_gptj},
    ModelType{"codegen", read_codegen}, ModelType{"gpt_neox", read_gpt_neox},
    ModelType{"opt", read_opt},         ModelType{"bloom", read_bloom},
    ModelType{"mpt", read_mpt},         ModelType{"falcon", read_falcon},
};

}  // namespace

std::span<const ModelType> gpt_types() { return kGptTypes; }

}  // namespace memest::hf
