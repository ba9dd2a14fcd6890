// DeBERTa-v2/v3 and ModernBERT: encoders whose layers are not BERT's. transformers 5.17,
// models/deberta_v2 and modernbert.
#include <algorithm>
#include <array>
#include <utility>

#include "reader/hf/decoder_config.hpp"
#include "reader/hf/inventory_config.hpp"

namespace memest::hf {
namespace {

using enum HeadPart;
constexpr std::array kHeads = {
    HeadRow{"ForMaskedLM", language_model},
    HeadRow{"ForSequenceClassification", hidden_classifier},
    HeadRow{"ForMultipleChoice", hidden_one_score},
    HeadRow{"ForTokenClassification", classifier},
    HeadRow{"ForQuestionAnswering", question_answering},
    HeadRow{"Model", none},
};

constexpr LayerNames kDebertaLayer{"attention.self.query_proj",
                                   "attention.self.key_proj",
                                   "attention.self.value_proj",
                                   "attention.output.dense",
                                   "attention.output.LayerNorm",
                                   "intermediate.dense",
                                   "output.dense",
                                   "output.LayerNorm"};

struct DebertaSizes {
  std::int64_t vocab = 0;
  std::int64_t embedding = 0;
  std::int64_t positions = 0;
  LayerSizes layer;
};

DebertaSizes read_deberta_sizes(ConfigReader& config) {
  const std::int64_t hidden = config.size({"hidden_size"}, 1536);
  check_heads(config, {"num_attention_heads"}, hidden, config.size({"num_attention_heads"}, 24));
  return {config.size({"vocab_size"}, 128100),
          config.size({"embedding_size"}, hidden),
          config.size({"max_position_embeddings"}, 512),
          {hidden, config.size({"intermediate_size"}, 6144),
           read_layers(config, {"num_hidden_layers"}, 24)}};
}

void write_deberta_embeddings(ConfigReader& config, InventoryBuilder& inventory,
                              const DebertaSizes& sizes, bool output_head) {
  write_token_table(inventory, "embeddings.word_embeddings", {sizes.vocab, sizes.embedding},
                    output_head);
  // DebertaV2Embeddings: position_embeddings is None without it, as in DeBERTa-v3.
  if (config.flag({"position_biased_input"}, true)) {
    inventory.embedding("embeddings.position_embeddings", sizes.positions, sizes.embedding);
  }
  const std::int64_t types = config.count({"type_vocab_size"}, 0);
  if (types > 0) inventory.embedding("embeddings.token_type_embeddings", types, sizes.embedding);
  if (sizes.embedding != sizes.layer.hidden) {
    // Without a bias, unlike ELECTRA's.
    inventory.projection("embeddings.embed_proj", {sizes.layer.hidden, sizes.embedding});
  }
  inventory.layer_norm("embeddings.LayerNorm", sizes.layer.hidden);
  inventory.add(BufferTensor{
      .name = "embeddings.position_ids", .shape = {1, sizes.positions}, .dtype = DType::int64});
}

/// The kinds of relative attention: a list, or one word with bars between ("p2c|c2p").
bool has_attention_type(ConfigReader& config, const std::string& type) {
  const Value* const value = config.find({"pos_att_type"});
  if (value == nullptr) return false;
  if (value->kind == ValueKind::scalar) return value->text.find(type) != std::string::npos;
  const std::vector<std::string> types = config.words({"pos_att_type"});
  return std::find(types.begin(), types.end(), type) != types.end();
}

void write_relative_attention(ConfigReader& config, InventoryBuilder& inventory,
                              const DebertaSizes& sizes) {
  const auto [hidden, ffn, layers] = sizes.layer;
  const auto positive_or = [&](Keys keys, std::int64_t fallback) {
    const double number = config.number(keys, -1);
    return number > 0 ? config.size(keys, fallback) : fallback;
  };
  const bool relative = config.flag({"relative_attention"}, false);
  // DisentangledSelfAttention: with share_att_key positions go through key_proj and query_proj.
  if (relative && !config.flag({"share_att_key"}, false)) {
    if (has_attention_type(config, "c2p")) {
      inventory.projection("attention.self.pos_key_proj", {hidden, hidden, true}, layers);
    }
    if (has_attention_type(config, "p2c")) {
      inventory.projection("attention.self.pos_query_proj", {hidden, hidden, true}, layers);
    }
  }
  if (relative) {
    // DebertaV2Encoder: max_relative_positions below 1 is max_position_embeddings, and
    // position_buckets above 0 stand in its place. v3-base: 256 buckets, 512 rows.
    const std::int64_t distances = positive_or({"max_relative_positions"}, sizes.positions);
    inventory.embedding("encoder.rel_embeddings", 2 * positive_or({"position_buckets"}, distances),
                        hidden);
  }
  if (config.word({"norm_rel_ebd"}, "none").find("layer_norm") != std::string::npos) {
    inventory.layer_norm("encoder.LayerNorm", hidden);
  }
  // DebertaV2Encoder.conv, one for the whole stack, after the first layer.
  const std::int64_t kernel = config.count({"conv_kernel_size"}, 0);
  if (kernel == 0) return;
  write_kernel(inventory, "encoder.conv.conv",
               {hidden, hidden / config.size({"conv_groups"}, 1), kernel});
  write_bias(inventory, "encoder.conv.conv", hidden);
  inventory.layer_norm("encoder.conv.LayerNorm", hidden);
}

void write_deberta_head(ConfigReader& config, InventoryBuilder& inventory,
                        const DebertaSizes& sizes, HeadPart part) {
  const std::int64_t hidden = sizes.layer.hidden;
  const std::int64_t pooled = config.size({"pooler_hidden_size"}, hidden);
  const bool pools = part == hidden_classifier || part == hidden_one_score;
  if (part == none) return;
  if (part == language_model) {
    inventory.projection("cls.predictions.transform.dense", {sizes.embedding, hidden, true});
    inventory.layer_norm("cls.predictions.transform.LayerNorm", sizes.embedding);
    write_bias(inventory, "cls.predictions", sizes.vocab);
    if (config.flag({"tie_word_embeddings"}, true)) return;
    return inventory.projection("cls.predictions.decoder", {sizes.vocab, sizes.embedding, true});
  }
  // ContextPooler; DebertaV2Model itself has none.
  if (pools) inventory.projection("pooler.dense", {pooled, pooled, true});
  const std::int64_t outputs = part == hidden_one_score ? 1 : read_labels(config);
  inventory.projection("classifier", {outputs, pools ? pooled : hidden, true});
}

ReadModel read_deberta(ConfigReader& config) {
  InventoryBuilder inventory;
  const DebertaSizes sizes = read_deberta_sizes(config);
  const HeadPart part = choose_head(config, kHeads).part;
  write_deberta_embeddings(config, inventory, sizes,
                           part == language_model && config.flag({"tie_word_embeddings"}, true));
  write_layers(inventory, "", kDebertaLayer, sizes.layer);
  write_relative_attention(config, inventory, sizes);
  write_deberta_head(config, inventory, sizes, part);
  return {Family::encoder, std::move(inventory).take()};
}

struct ModernSizes {
  LayerSizes layer;
  std::int64_t heads = 0;
  bool norm_bias = false;
};

/// `count` LayerNorms with a bias or without.
void write_norms(InventoryBuilder& inventory, const std::string& name, std::int64_t count,
                 const ModernSizes& sizes) {
  const std::int64_t size = sizes.layer.hidden;
  if (sizes.norm_bias) {
    inventory.layer_norm(name, size, count);
  } else {
    inventory.rms_norm(name, size, count);
  }
}

void write_modern_layers(ConfigReader& config, InventoryBuilder& inventory,
                         const ModernSizes& sizes) {
  const auto [hidden, ffn, layers] = sizes.layer;
  const bool attention_bias = config.flag({"attention_bias"}, false);
  const bool mlp_bias = config.flag({"mlp_bias"}, false);
  // ModernBertMLP.Wi is input and gate at once, Wqkv all three: each one product.
  inventory.projection("attn.Wqkv", {3 * hidden, hidden, attention_bias}, layers);
  inventory.projection("attn.Wo", {hidden, hidden, attention_bias}, layers);
  inventory.projection("mlp.Wi", {2 * ffn, hidden, mlp_bias}, layers);
  inventory.projection("mlp.Wo", {hidden, ffn, mlp_bias}, layers);
  // The first layer's attention takes the normed embedding as it is.
  write_norms(inventory, "attn_norm", layers - 1, sizes);
  write_norms(inventory, "mlp_norm", layers, sizes);
}

/// A table of frequencies and its original for each layer type that occurs.
void write_modern_tables(ConfigReader& config, InventoryBuilder& inventory,
                         const ModernSizes& sizes) {
  const std::int64_t layers = sizes.layer.layers;
  const std::int64_t every = config.size({"global_attn_every_n_layers"}, 3);
  std::vector<bool> slides = read_layer_types(config, layers);
  for (std::int64_t layer = 0; slides.size() < static_cast<std::size_t>(layers); ++layer) {
    // ModernBertConfig: bool(i % global_attn_every_n_layers): layers 0, 3, 6, ... see everything.
    slides.push_back(layer % every != 0);
  }
  for (const bool sliding : {false, true}) {
    if (std::find(slides.begin(), slides.end(), sliding) == slides.end()) continue;
    const std::string type = sliding ? "sliding_attention" : "full_attention";
    for (const char* table : {"_inv_freq", "_original_inv_freq"}) {
      inventory.add(BufferTensor{.name = "rotary_emb." + type + table,
                                 .shape = {(sizes.layer.hidden / sizes.heads + 1) / 2}});
    }
  }
}

ReadModel read_modernbert(ConfigReader& config) {
  InventoryBuilder inventory;
  const std::int64_t hidden = config.size({"hidden_size"}, 768);
  const std::int64_t vocab = config.size({"vocab_size"}, 50368);
  const ModernSizes sizes{{hidden, config.size({"intermediate_size"}, 1152),
                           read_layers(config, {"num_hidden_layers"}, 22)},
                          config.size({"num_attention_heads"}, 12),
                          config.flag({"norm_bias"}, false)};
  check_heads(config, {"num_attention_heads"}, hidden, sizes.heads);
  const HeadPart part = choose_head(config, kHeads).part;
  const bool tied = config.flag({"tie_word_embeddings"}, true);
  write_token_table(inventory, "embeddings.tok_embeddings", {vocab, hidden},
                    part == language_model && tied);
  write_norms(inventory, "embeddings.norm", 1, sizes);
  write_modern_layers(config, inventory, sizes);
  write_norms(inventory, "final_norm", 1, sizes);
  write_modern_tables(config, inventory, sizes);
  if (part == none) return {Family::encoder, std::move(inventory).take()};
  // ModernBertPredictionHead stands in front of every head, the language model's too.
  inventory.projection("head.dense", {hidden, hidden, config.flag({"classifier_bias"}, false)});
  write_norms(inventory, "head.norm", 1, sizes);
  if (part == language_model) {
    // decoder.bias is not tied: only decoder.weight stands in _tied_weights_keys.
    if (!tied) inventory.projection("decoder", {vocab, hidden});
    if (config.flag({"decoder_bias"}, true)) write_bias(inventory, "decoder", vocab);
  } else {
    const std::int64_t outputs = part == hidden_one_score ? 1 : read_labels(config);
    inventory.projection("classifier", {outputs, hidden, true});
  }
  return {Family::encoder, std::move(inventory).take()};
}

constexpr std::array kModernEncodersTypes = {ModelType{"deberta-v2", read_deberta},
                                             ModelType{"modernbert", read_modernbert}};

}  // namespace

std::span<const ModelType> modern_encoder_types() { return kModernEncodersTypes; }

}  // namespace memest::hf
