// The class that a config names, as far as it decides what stands on top of the last layer.
#include <algorithm>
#include <array>
#include <string>

#include "reader/hf/decoder_config.hpp"

namespace memest::hf {
namespace {

struct HeadSuffix {
  std::string_view suffix;
  DecoderHead head;
  bool bias;
  bool two_outputs;  ///< start and end, whatever the labels
};

// "LMHeadModel" before "Model".
constexpr std::array kSuffixes = {
    // GenericForSequenceClassification: score without a bias; GenericForTokenClassification has
    // one, and GenericForQuestionAnswering is nn.Linear(hidden, 2).
    HeadSuffix{"ForSequenceClassification", DecoderHead::classification, false, false},
    HeadSuffix{"ForTokenClassification", DecoderHead::classification, true, false},
    HeadSuffix{"ForQuestionAnswering", DecoderHead::classification, true, true},
    HeadSuffix{"ForCausalLM", DecoderHead::language_model, false, false},
    // Multimodal configs of the hub that have the text model's keys beside their own (Qwen2-VL).
    HeadSuffix{"ForConditionalGeneration", DecoderHead::language_model, false, false},
    HeadSuffix{"LMHeadModel", DecoderHead::language_model, false, false},
    HeadSuffix{"Model", DecoderHead::none, false, false},
};

}  // namespace

std::string read_architecture(ConfigReader& config) {
  const std::vector<std::string> names = config.words({"architectures"});
  return names.empty() ? "" : names.front();
}

std::int64_t read_labels(ConfigReader& config, std::int64_t fallback) {
  const Value* const labels = config.find({"id2label"});
  if (labels != nullptr && labels->kind != ValueKind::mapping) {
    config.error({"id2label"}, "'id2label' must be a mapping of numbers to names");
  } else if (labels != nullptr && !labels->members.empty()) {
    // PreTrainedConfig.num_labels is len(id2label); without one it is 2.
    return static_cast<std::int64_t>(labels->members.size());
  }
  return config.size({"num_labels"}, fallback);
}

void read_decoder_head(ConfigReader& config, bool tied_by_default, DecoderSpec& decoder) {
  const bool tied = config.flag({"tie_word_embeddings"}, tied_by_default);
  const std::string written = read_architecture(config);
  const std::string architecture = written.empty() ? "ForCausalLM" : written;
  const auto* const row =
      std::find_if(kSuffixes.begin(), kSuffixes.end(),
                   [&](const HeadSuffix& head) { return architecture.ends_with(head.suffix); });
  if (row == kSuffixes.end() || architecture.ends_with("DoubleHeadsModel")) {
    config.error({"architectures"}, "unknown head of a decoder: '" + architecture + "'",
                 "known are ...ForCausalLM, ...LMHeadModel, ...ForSequenceClassification, "
                 "...ForTokenClassification, ...ForQuestionAnswering and ...Model");
    return;
  }
  decoder.head = row->head;
  // tie_word_embeddings binds lm_head alone; a score stays a matrix of its own.
  decoder.tied_embeddings = tied && row->head == DecoderHead::language_model;
  if (row->head == DecoderHead::language_model) return;
  decoder.head_bias = row->bias;
  if (row->head == DecoderHead::classification) {
    decoder.labels = row->two_outputs ? 2 : read_labels(config);
  }
}

}  // namespace memest::hf
