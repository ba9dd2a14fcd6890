// BERT and its cousins. transformers 5.17, models/*/configuration_*.py (defaults) and modeling_*.py
// (structure).
#include <array>
#include <utility>

#include "reader/hf/decoder_config.hpp"
#include "reader/hf/inventory_config.hpp"

namespace memest::hf {
namespace {

constexpr LayerNames kBertLayer{"attention.self.query",
                                "attention.self.key",
                                "attention.self.value",
                                "attention.output.dense",
                                "attention.output.LayerNorm",
                                "intermediate.dense",
                                "output.dense",
                                "output.LayerNorm"};
constexpr LayerNames kMpnetLayer{"attention.attn.q", "attention.attn.k",    "attention.attn.v",
                                 "attention.attn.o", "attention.LayerNorm", "intermediate.dense",
                                 "output.dense",     "output.LayerNorm"};
constexpr LayerNames kDistilLayer{"attention.q_lin",   "attention.k_lin",  "attention.v_lin",
                                  "attention.out_lin", "sa_layer_norm",    "ffn.lin1",
                                  "ffn.lin2",          "output_layer_norm"};
constexpr LayerNames kAlbertLayer{"attention.query", "attention.key",        "attention.value",
                                  "attention.dense", "attention.LayerNorm",  "ffn",
                                  "ffn_output",      "full_layer_layer_norm"};

/// Names of the language model's head.
struct LanguageModelNames {
  std::string_view transform;
  std::string_view norm;
  std::string_view logits;  ///< whose matrix is the tied one
  std::string_view bias;    ///< ".bias" of this is over the vocabulary
};
constexpr LanguageModelNames kBertHead{"cls.predictions.transform.dense",
                                       "cls.predictions.transform.LayerNorm",
                                       "cls.predictions.decoder", "cls.predictions"};
constexpr LanguageModelNames kRobertaHead{"lm_head.dense", "lm_head.layer_norm", "lm_head.decoder",
                                          "lm_head"};
constexpr LanguageModelNames kElectraHead{"generator_predictions.dense",
                                          "generator_predictions.LayerNorm", "generator_lm_head",
                                          "generator_lm_head"};
constexpr LanguageModelNames kDistilHead{"vocab_transform", "vocab_layer_norm", "vocab_projector",
                                         "vocab_projector"};
constexpr LanguageModelNames kAlbertHead{"predictions.dense", "predictions.LayerNorm",
                                         "predictions.decoder", "predictions"};

using enum HeadPart;
constexpr std::array kBertHeads = {
    HeadRow{"ForMaskedLM", language_model},
    // BertForPreTraining keeps BertPooler, BertForMaskedLM builds
    // BertModel(add_pooling_layer=False).
    HeadRow{"ForPreTraining", pretraining, true},
    HeadRow{"LMHeadModel", language_model},
    HeadRow{"ForNextSentencePrediction", classifier, true},
    HeadRow{"ForSequenceClassification", classifier, true},
    HeadRow{"ForMultipleChoice", one_score, true},
    HeadRow{"ForTokenClassification", classifier},
    HeadRow{"ForQuestionAnswering", question_answering},
    HeadRow{"Model", none, true},
};
constexpr std::array kRobertaHeads = {
    HeadRow{"ForMaskedLM", language_model},
    HeadRow{"ForCausalLM", language_model},
    // RobertaForSequenceClassification pools in its head: RobertaClassificationHead.dense and
    // out_proj.
    HeadRow{"ForSequenceClassification", hidden_classifier},
    HeadRow{"ForMultipleChoice", one_score, true},
    HeadRow{"ForTokenClassification", classifier},
    HeadRow{"ForQuestionAnswering", question_answering},
    HeadRow{"Model", none, true},
};
constexpr std::array kElectraHeads = {
    HeadRow{"ForMaskedLM", language_model},
    HeadRow{"ForCausalLM", language_model},
    HeadRow{"ForPreTraining", discriminator},
    HeadRow{"ForSequenceClassification", hidden_classifier},
    HeadRow{"ForMultipleChoice", hidden_one_score},
    HeadRow{"ForTokenClassification", classifier},
    HeadRow{"ForQuestionAnswering", question_answering},
    HeadRow{"Model", none},
};
constexpr std::array kDistilHeads = {
    HeadRow{"ForMaskedLM", language_model},
    HeadRow{"ForSequenceClassification", hidden_classifier},
    HeadRow{"ForMultipleChoice", hidden_one_score},
    HeadRow{"ForTokenClassification", classifier},
    HeadRow{"ForQuestionAnswering", question_answering},
    HeadRow{"Model", none},
};

/// One model type: its defaults and its names.
struct BertLike {
  std::int64_t vocab = 30522;
  std::int64_t hidden = 768;
  std::int64_t ffn = 3072;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t token_types = 2;  ///< default of type_vocab_size
  bool has_token_types = true;   ///< the class has such a table, of any size
  // BertEmbeddings registers position_ids and token_type_ids, DistilBERT's and MPNet's position_ids
  // only.
  bool token_type_buffer = true;
  std::int64_t embedding = 0;  ///< default of embedding_size; 0: always the hidden size
  const LayerNames* layer = &kBertLayer;
  const LanguageModelNames* language_model = &kBertHead;
  std::span<const HeadRow> head_rows = kBertHeads;
  std::string_view pooler = "pooler.dense";
};

struct EncoderSizes {
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t embedding = 0;
  LayerSizes layer;
};

/// One model: its type, its sizes and the head that its class has.
struct Encoder {
  const BertLike& type;
  EncoderSizes sizes;
  const HeadRow& head;
};

const Keys kHiddenKeys = {"hidden_size", "dim"};
const Keys kHeadKeys = {"num_attention_heads", "n_heads"};

EncoderSizes read_sizes(ConfigReader& config, const BertLike& type) {
  EncoderSizes sizes;
  sizes.vocab = config.size({"vocab_size"}, type.vocab);
  sizes.hidden = config.size(kHiddenKeys, type.hidden);
  sizes.embedding =
      // ELECTRA and ALBERT embed into 128 and project to the hidden size.
      type.embedding == 0 ? sizes.hidden : config.size({"embedding_size"}, type.embedding);
  sizes.layer = {sizes.hidden, config.size({"intermediate_size", "hidden_dim"}, type.ffn),
                 read_layers(config, {"num_hidden_layers", "n_layers"}, type.layers)};
  check_heads(config, kHeadKeys, sizes.hidden, config.size(kHeadKeys, type.heads));
  if (config.flag({"add_cross_attention"}, false)) {
    config.error({"add_cross_attention"}, "an encoder with cross-attention is not known");
  }
  return sizes;
}

void write_position_ids(InventoryBuilder& inventory, std::int64_t positions, bool token_types) {
  const auto ids = [&](const char* name) {
    inventory.add(BufferTensor{.name = name, .shape = {1, positions}, .dtype = DType::int64});
  };
  ids("embeddings.position_ids");
  if (token_types) ids("embeddings.token_type_ids");
}

bool is_output_head(ConfigReader& config, const HeadRow& head) {
  return (head.part == language_model || head.part == pretraining) &&
         config.flag({"tie_word_embeddings"}, true);
}

void write_embeddings(ConfigReader& config, InventoryBuilder& inventory, const Encoder& encoder) {
  const auto& [type, sizes, head] = encoder;
  const bool output_head = is_output_head(config, head);
  const std::int64_t positions = config.size({"max_position_embeddings"}, 512);
  write_token_table(inventory, "embeddings.word_embeddings", {sizes.vocab, sizes.embedding},
                    output_head);
  inventory.embedding("embeddings.position_embeddings", positions, sizes.embedding);
  if (type.has_token_types) {
    const std::int64_t types = config.count({"type_vocab_size"}, type.token_types);
    inventory.embedding("embeddings.token_type_embeddings", types, sizes.embedding);
  }
  inventory.layer_norm("embeddings.LayerNorm", sizes.embedding);
  write_position_ids(inventory, positions, type.token_type_buffer);
}

void write_language_model(InventoryBuilder& inventory, const BertLike& type,
                          const EncoderSizes& sizes, bool tied) {
  const LanguageModelNames& names = *type.language_model;
  inventory.projection(std::string(names.transform), {sizes.embedding, sizes.hidden, true});
  inventory.layer_norm(std::string(names.norm), sizes.embedding);
  // cls.predictions.bias is a parameter of its own, to which decoder.bias is tied
  // (_tied_weights_keys).
  write_bias(inventory, std::string(names.bias), sizes.vocab);
  if (tied) return;
  inventory.projection(std::string(names.logits),
                       // Untied, BERT's decoder.bias stands beside predictions.bias; ELECTRA has
                       // but one.
                       {sizes.vocab, sizes.embedding, names.logits != names.bias});
}

void write_classifier(InventoryBuilder& inventory, std::int64_t hidden, std::int64_t outputs) {
  inventory.projection("classifier", {outputs, hidden, true});
}

void write_head(ConfigReader& config, InventoryBuilder& inventory, const Encoder& encoder) {
  const auto& [type, sizes, head] = encoder;
  const std::int64_t hidden = sizes.hidden;
  const bool tied = config.flag({"tie_word_embeddings"}, true);
  const bool pair = head.suffix == "ForNextSentencePrediction";
  const std::int64_t labels = pair ? 2 : read_labels(config);
  if (head.pooler) inventory.projection(std::string(type.pooler), {hidden, hidden, true});
  switch (head.part) {
    case none:
      return;
    case language_model:
      return write_language_model(inventory, type, sizes, tied);
    case pretraining:
      write_language_model(inventory, type, sizes, tied);
      // BertPreTrainingHeads.seq_relationship has two outputs, AlbertSOPHead.classifier num_labels.
      return write_classifier(inventory, hidden, type.embedding > 0 ? labels : 2);
    case discriminator:
      inventory.projection("discriminator_predictions.dense", {hidden, hidden, true});
      return inventory.projection("discriminator_predictions.dense_prediction", {1, hidden, true});
    case classifier:
      return write_classifier(inventory, hidden, labels);
    case hidden_classifier:
      inventory.projection("classifier.dense", {hidden, hidden, true});
      return write_classifier(inventory, hidden, labels);
    case question_answering:
      return inventory.projection("qa_outputs", {labels, hidden, true});
    case one_score:
      return write_classifier(inventory, hidden, 1);
    case hidden_one_score:
      inventory.projection("classifier.dense", {hidden, hidden, true});
      return write_classifier(inventory, hidden, 1);
  }
}

/// Embeddings and layers; what a family adds stands in `inventory` before or after.
void write_encoder(ConfigReader& config, InventoryBuilder& inventory, const BertLike& type) {
  const Encoder encoder{type, read_sizes(config, type), choose_head(config, type.head_rows)};
  const EncoderSizes& sizes = encoder.sizes;
  write_embeddings(config, inventory, encoder);
  if (sizes.embedding != sizes.hidden) {
    // ElectraModel: `if config.embedding_size != config.hidden_size`.
    inventory.projection("embeddings_project", {sizes.hidden, sizes.embedding, true});
  }
  write_layers(inventory, "", *type.layer, sizes.layer);
  write_head(config, inventory, encoder);
}

constexpr BertLike kBert{};
constexpr BertLike kRoberta{
    .vocab = 50265, .language_model = &kRobertaHead, .head_rows = kRobertaHeads};
constexpr BertLike kXlmRoberta{.language_model = &kRobertaHead, .head_rows = kRobertaHeads};
constexpr BertLike kElectra{.hidden = 256,
                            .ffn = 1024,
                            .heads = 4,
                            .embedding = 128,
                            .language_model = &kElectraHead,
                            .head_rows = kElectraHeads};
constexpr BertLike kDistil{.layers = 6,
                           .has_token_types = false,
                           .token_type_buffer = false,
                           .layer = &kDistilLayer,
                           .language_model = &kDistilHead,
                           .head_rows = kDistilHeads};
constexpr BertLike kMpnet{.vocab = 30527,
                          .has_token_types = false,
                          .token_type_buffer = false,
                          .layer = &kMpnetLayer,
                          .language_model = &kRobertaHead,
                          .head_rows = kRobertaHeads};

template <const BertLike& kType>
ReadModel read_bert_like(ConfigReader& config) {
  InventoryBuilder inventory;
  write_encoder(config, inventory, kType);
  return {Family::encoder, std::move(inventory).take()};
}

ReadModel read_mpnet(ConfigReader& config) {
  InventoryBuilder inventory;
  write_encoder(config, inventory, kMpnet);
  // MPNetEncoder owns one table for all layers: 32 buckets · 12 heads.
  write_other(inventory, "encoder.relative_attention_bias.weight",
              {config.size({"relative_attention_num_buckets"}, 32), config.size(kHeadKeys, 12)});
  return {Family::encoder, std::move(inventory).take()};
}

constexpr BertLike kAlbert{.vocab = 30000,
                           .hidden = 4096,
                           .ffn = 16384,
                           .heads = 64,
                           .embedding = 128,
                           .layer = &kAlbertLayer,
                           .language_model = &kAlbertHead,
                           .head_rows = kBertHeads,
                           .pooler = "pooler"};

/// The layers of a group share their parameters.
ReadModel read_albert(ConfigReader& config) {
  InventoryBuilder inventory;
  EncoderSizes sizes = read_sizes(config, kAlbert);
  // AlbertTransformer.forward: group_idx = int(i / (num_hidden_layers / num_hidden_groups)). Twelve
  // layers of one group hold the parameters of one.
  sizes.layer.layers = config.size({"num_hidden_groups"}, 1) * config.size({"inner_group_num"}, 1);
  const Encoder encoder{kAlbert, sizes, choose_head(config, kAlbert.head_rows)};
  write_embeddings(config, inventory, encoder);
  // AlbertTransformer maps always, even where both sizes are equal.
  inventory.projection("encoder.embedding_hidden_mapping_in",
                       {sizes.hidden, sizes.embedding, true});
  write_layers(inventory, "", *kAlbert.layer, sizes.layer);
  write_head(config, inventory, encoder);
  return {Family::encoder, std::move(inventory).take()};
}

constexpr std::array kEncodersTypes = {
    ModelType{"bert", read_bert_like<kBert>},
    ModelType{"roberta", read_bert_like<kRoberta>},
    ModelType{"xlm-roberta", read_bert_like<kXlmRoberta>},
    ModelType{"camembert", read_bert_like<kXlmRoberta>},
    ModelType{"electra", read_bert_like<kElectra>},
    ModelType{"distilbert", read_bert_like<kDistil>},
    ModelType{"mpnet", read_mpnet},
    ModelType{"albert", read_albert},
};

}  // namespace

std::span<const ModelType> encoder_types() { return kEncodersTypes; }

}  // namespace memest::hf
