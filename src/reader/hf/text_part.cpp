#include "reader/hf/text_part.hpp"

#include <algorithm>
#include <array>

#include "reader/hf/families.hpp"

namespace memest::hf {
namespace {

/// How the configs of transformers and of LLaVA's own repository call what holds the towers.
constexpr auto kTowers =
    std::to_array<std::string_view>({"vision_config", "audio_config", "vision_encoder",
                                     "vision_tower", "mm_vision_tower", "visual"});

/// Model types that are multimodal without a key that says so, and the default type of their text
/// model (sub_configs of transformers 5.17).
struct Multimodal {
  std::string_view model_type;
  std::string_view towers;
  std::string_view text_model_type;
};
// Gemma3Config.sub_configs: text_config is a Gemma3TextConfig, vision_config a SiglipVisionConfig.
// LlavaConfig.__post_init__: a text_config without a type is a LlamaConfig.
constexpr std::array kMultimodal = {Multimodal{"gemma3", "vision_config", "gemma3_text"},
                                    Multimodal{"llava", "vision_config", "llama"},
                                    Multimodal{"qwen2_vl", "vision_config", "qwen2_vl_text"},
                                    Multimodal{"qwen2_5_vl", "vision_config", "qwen2_5_vl_text"}};

std::string_view word_of(const Value& config, std::string_view key) {
  const Value* const value = config.find(key);
  return value != nullptr && value->kind == ValueKind::scalar ? std::string_view(value->text)
                                                              : std::string_view();
}

bool is_written(const Value& config, std::string_view key) {
  const Value* const value = config.find(key);
  return value != nullptr && value->kind != ValueKind::null;
}

bool counts_its_towers(std::string_view model_type) {
  const auto types = tower_types();
  return std::any_of(types.begin(), types.end(),
                     [=](const ModelType& type) { return type.name == model_type; });
}

}  // namespace

TextPart text_part_of(const Value& config) {
  const std::string_view model_type = word_of(config, "model_type");
  if (counts_its_towers(model_type)) return {};
  TextPart part;
  part.model_type = model_type;
  for (const Multimodal& known : kMultimodal) {
    if (known.model_type != model_type) continue;
    part.towers = known.towers;
    part.model_type = known.text_model_type;
  }
  for (const std::string_view tower : kTowers) {
    if (part.towers.empty() && is_written(config, tower)) part.towers = tower;
  }
  const Value* const section = config.find(kTextSection);
  if (section == nullptr || section->kind != ValueKind::mapping) return part;
  if (!part.is_part()) part.towers = kTextSection;  // a spec keeps no more of them than that
  part.section = section;
  if (const std::string_view type = word_of(*section, "model_type"); !type.empty()) {
    part.model_type = type;
  }
  return part;
}

}  // namespace memest::hf
