// T5, BART and their cousins. transformers 5.17, models/*/configuration_*.py (defaults) and
// modeling_*.py (structure).
#include <array>
#include <utility>

#include "reader/hf/decoder_config.hpp"
#include "reader/hf/inventory_config.hpp"

namespace memest::hf {
namespace {

using enum HeadPart;

struct T5Defaults {
  std::int64_t vocab = 0;
  std::int64_t ffn = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::string_view feed_forward;
};
constexpr T5Defaults kT5{32128, 2048, 6, 8, "relu"};
constexpr T5Defaults kMt5{250112, 1024, 8, 6, "gated-gelu"};

// Encoder and decoder share one table, which is the output head as well: the class ties them
// whatever the config says.
constexpr std::array kT5Heads = {
    HeadRow{"ForConditionalGeneration", language_model},
    HeadRow{"WithLMHeadModel", language_model},
    HeadRow{"EncoderModel", none},
    HeadRow{"Model", none},
};

struct T5Sizes {
  std::int64_t hidden = 0;
  std::int64_t inner = 0;
  std::int64_t ffn = 0;
  std::int64_t heads = 0;
  std::int64_t buckets = 0;
  bool gated = false;
};

void write_t5_attention(InventoryBuilder& inventory, const std::string& name, const T5Sizes& sizes,
                        std::int64_t layers) {
  for (const char* part : {".q", ".k", ".v"}) {
    inventory.projection(name + part, {sizes.inner, sizes.hidden}, layers);
  }
  inventory.projection(name + ".o", {sizes.hidden, sizes.inner}, layers);
}

void write_t5_stack(InventoryBuilder& inventory, const std::string& stack, const T5Sizes& sizes,
                    std::int64_t layers) {
  const bool decodes = stack == "decoder";
  write_t5_attention(inventory, stack + ".SelfAttention", sizes, layers);
  // T5Stack: has_relative_attention_bias = bool(i == 0): the first layer's table serves all.
  write_other(inventory, stack + ".SelfAttention.relative_attention_bias.weight",
              {sizes.buckets, sizes.heads});
  if (decodes) write_t5_attention(inventory, stack + ".EncDecAttention", sizes, layers);
  const std::string dense = stack + ".DenseReluDense";
  // T5DenseGatedActDense has wi_0 and wi_1, T5DenseActDense one wi; no T5 product has a bias.
  inventory.projection(dense + (sizes.gated ? ".wi_0" : ".wi"), {sizes.ffn, sizes.hidden}, layers);
  if (sizes.gated) inventory.projection(dense + ".wi_1", {sizes.ffn, sizes.hidden}, layers);
  inventory.projection(dense + ".wo", {sizes.hidden, sizes.ffn}, layers);
  // T5LayerNorm in T5LayerSelfAttention, T5LayerCrossAttention and T5LayerFF.
  inventory.rms_norm(stack + ".layer_norm", sizes.hidden, layers * (decodes ? 3 : 2));
  inventory.rms_norm(stack + ".final_layer_norm", sizes.hidden);
}

template <const T5Defaults& kDefaults>
ReadModel read_t5(ConfigReader& config) {
  InventoryBuilder inventory;
  const HeadRow& head = choose_head(config, kT5Heads);
  T5Sizes sizes;
  sizes.hidden = config.size({"d_model", "hidden_size"}, 512);
  sizes.heads = config.size({"num_heads", "num_attention_heads"}, kDefaults.heads);
  // T5Attention.inner_dim = n_heads · d_kv, which need not be d_model: T5-3B has 32 · 128 = 4096
  // beside 1024.
  sizes.inner = sizes.heads * config.size({"d_kv", "head_dim"}, 64);
  sizes.ffn = config.size({"d_ff"}, kDefaults.ffn);
  sizes.buckets = config.size({"relative_attention_num_buckets"}, 32);
  // T5Config: feed_forward_proj.split("-")[0] == "gated".
  sizes.gated = config.word({"feed_forward_proj"}, kDefaults.feed_forward).starts_with("gated-");
  const std::int64_t layers =
      read_layers(config, {"num_layers", "num_hidden_layers"}, kDefaults.layers);
  write_token_table(inventory, "shared",
                    {config.size({"vocab_size"}, kDefaults.vocab), sizes.hidden},
                    head.part == language_model);
  write_t5_stack(inventory, "encoder", sizes, layers);
  if (head.suffix == "EncoderModel") return {Family::encoder, std::move(inventory).take()};
  // T5Config.__post_init__: "default = symmetry".
  const std::int64_t decoder_layers = config.size({"num_decoder_layers"}, layers);
  write_t5_stack(inventory, "decoder", sizes, decoder_layers);
  return {Family::encoder_decoder, std::move(inventory).take()};
}

constexpr std::array kBartHeads = {
    HeadRow{"ForConditionalGeneration", language_model},
    HeadRow{"MTModel", language_model},
    HeadRow{"ForSequenceClassification", hidden_classifier},
    HeadRow{"ForQuestionAnswering", question_answering},
    HeadRow{"Model", none},
};
constexpr std::array kPlainHeads = {
    HeadRow{"ForConditionalGeneration", language_model},
    HeadRow{"MTModel", language_model},
    HeadRow{"Model", none},
};

/// The differences between BART's cousins.
struct BartLike {
  std::int64_t vocab = 50265;
  bool sinusoidal = false;  ///< positions are a frozen table, of max_position_embeddings rows
  bool embedding_norm = true;
  bool final_norm = false;
  std::int64_t labels = 2;  ///< of a classifier whose config names none
  std::span<const HeadRow> heads = kBartHeads;
};
// BartConfig.__post_init__: num_labels is 3 where the config names none.
constexpr BartLike kBart{.labels = 3};
// MBart norms before its branches and so once more after the last layer, where BART norms after.
constexpr BartLike kMbart{.final_norm = true};
constexpr BartLike kPegasus{
    .sinusoidal = true, .embedding_norm = false, .final_norm = true, .heads = kPlainHeads};
constexpr BartLike kMarian{
    .vocab = 58101, .sinusoidal = true, .embedding_norm = false, .heads = kPlainHeads};

struct StackSizes {
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t layers = 0;
  bool key_bias = true;
};

void write_bart_attention(InventoryBuilder& inventory, const std::string& name,
                          const StackSizes& sizes) {
  const std::int64_t hidden = sizes.hidden;
  // WhisperAttention.k_proj has no bias, BART's has.
  inventory.projection(name + ".k_proj", {hidden, hidden, sizes.key_bias}, sizes.layers);
  for (const char* part : {".v_proj", ".q_proj", ".out_proj"}) {
    inventory.projection(name + part, {hidden, hidden, true}, sizes.layers);
  }
  inventory.layer_norm(name + "_layer_norm", hidden, sizes.layers);
}

void write_bart_stack(InventoryBuilder& inventory, const std::string& stack,
                      const StackSizes& sizes) {
  write_bart_attention(inventory, stack + ".self_attn", sizes);
  if (stack == "decoder") write_bart_attention(inventory, stack + ".encoder_attn", sizes);
  inventory.projection(stack + ".fc1", {sizes.ffn, sizes.hidden, true}, sizes.layers);
  inventory.projection(stack + ".fc2", {sizes.hidden, sizes.ffn, true}, sizes.layers);
  inventory.layer_norm(stack + ".final_layer_norm", sizes.hidden, sizes.layers);
}

/// A looked-up table of positions that is not trained.
void write_frozen_positions(InventoryBuilder& inventory, const std::string& name, std::int64_t rows,
                            std::int64_t size) {
  inventory.add(ParameterTensor{.name = name + ".weight",
                                .shape = {rows, size},
                                .role = ParameterRole::other,
                                .trainable = false});
}

StackSizes read_stack(ConfigReader& config, const std::string& stack, std::int64_t hidden,
                      const StackSizes& defaults) {
  const std::string layer_key = stack + "_layers";
  const std::string ffn_key = stack + "_ffn_dim";
  const std::string head_key = stack + "_attention_heads";
  check_heads(config, {head_key}, hidden, config.size({head_key}, defaults.hidden));
  return {hidden, config.size({ffn_key}, defaults.ffn),
          read_layers(config, {layer_key}, defaults.layers), defaults.key_bias};
}

struct BartHead {
  HeadPart part = none;
  bool tied = true;
  std::int64_t labels = 2;
};

void write_bart_head(InventoryBuilder& inventory, const BartHead& head, Projection logits) {
  const std::int64_t hidden = logits.in;
  if (head.part == language_model) {
    if (!head.tied) inventory.projection("lm_head", logits);
    // A buffer, not trained: lm_logits + final_logits_bias.
    inventory.add(BufferTensor{.name = "final_logits_bias", .shape = {1, logits.out}});
  } else if (head.part == hidden_classifier) {
    inventory.projection("classification_head.dense", {hidden, hidden, true});
    inventory.projection("classification_head.out_proj", {head.labels, hidden, true});
  } else if (head.part == question_answering) {
    inventory.projection("qa_outputs", {2, hidden, true});
  }
}

template <const BartLike& kType>
ReadModel read_bart(ConfigReader& config) {
  InventoryBuilder inventory;
  const HeadPart part = choose_head(config, kType.heads).part;
  const bool tied = config.flag({"tie_word_embeddings"}, true);
  const std::int64_t hidden = config.size({"d_model", "hidden_size"}, 1024);
  const std::int64_t vocab = config.size({"vocab_size"}, kType.vocab);
  const std::int64_t positions = config.size({"max_position_embeddings"}, 1024);
  if (!config.flag({"share_encoder_decoder_embeddings"}, true)) {
    config.error({"share_encoder_decoder_embeddings"},
                 "separate embeddings of encoder and decoder are not known");
  }
  write_token_table(inventory, "shared", {vocab, hidden}, tied && part == language_model);
  for (const std::string stack : {"encoder", "decoder"}) {
    // BartModel builds shared and both embed_tokens, and ties all three or none.
    if (!tied) write_token_table(inventory, stack + ".embed_tokens", {vocab, hidden}, false);
    // PegasusSinusoidalPositionalEmbedding is built with _freeze=True and has no offset;
    // BartLearnedPositionalEmbedding.offset is 2, so 1026 rows for 1024 positions.
    if (kType.sinusoidal) {
      write_frozen_positions(inventory, stack + ".embed_positions", positions, hidden);
    } else {
      inventory.embedding(stack + ".embed_positions", positions + 2, hidden);
    }
    write_bart_stack(inventory, stack, read_stack(config, stack, hidden, {16, 4096, 12}));
    if (kType.embedding_norm) inventory.layer_norm(stack + ".layernorm_embedding", hidden);
    if (kType.final_norm) inventory.layer_norm(stack + ".layer_norm", hidden);
  }
  write_bart_head(inventory, {part, tied, read_labels(config, kType.labels)}, {vocab, hidden});
  return {Family::encoder_decoder, std::move(inventory).take()};
}

ReadModel read_whisper(ConfigReader& config) {
  InventoryBuilder inventory;
  const HeadPart part = choose_head(config, kPlainHeads).part;
  const bool tied = config.flag({"tie_word_embeddings"}, true);
  const std::int64_t hidden = config.size({"d_model", "hidden_size"}, 384);
  const std::int64_t vocab = config.size({"vocab_size"}, 51865);
  const StackSizes defaults{6, 1536, 4, false};
  write_kernel(inventory, "encoder.conv1", {hidden, config.size({"num_mel_bins"}, 80), 3});
  write_bias(inventory, "encoder.conv1", hidden);
  write_kernel(inventory, "encoder.conv2", {hidden, hidden, 3});
  write_bias(inventory, "encoder.conv2", hidden);
  // WhisperEncoder: embed_positions.requires_grad_(False).
  write_frozen_positions(inventory, "encoder.embed_positions",
                         config.size({"max_source_positions"}, 1500), hidden);
  write_bart_stack(inventory, "encoder", read_stack(config, "encoder", hidden, defaults));
  inventory.layer_norm("encoder.layer_norm", hidden);
  write_token_table(inventory, "decoder.embed_tokens", {vocab, hidden},
                    tied && part == language_model);
  inventory.embedding("decoder.embed_positions", config.size({"max_target_positions"}, 448),
                      hidden);
  write_bart_stack(inventory, "decoder", read_stack(config, "decoder", hidden, defaults));
  inventory.layer_norm("decoder.layer_norm", hidden);
  if (part == language_model && !tied) inventory.projection("proj_out", {vocab, hidden});
  return {Family::encoder_decoder, std::move(inventory).take()};
}

constexpr std::array kTypes = {
    ModelType{"t5", read_t5<kT5>},
    ModelType{"mt5", read_t5<kMt5>},
    ModelType{"bart", read_bart<kBart>},
    ModelType{"mbart", read_bart<kMbart>},
    ModelType{"pegasus", read_bart<kPegasus>},
    ModelType{"marian", read_bart<kMarian>},
    ModelType{"whisper", read_whisper},
};

}  // namespace

std::span<const ModelType> encoder_decoder_types() { return kTypes; }

}  // namespace memest::hf
