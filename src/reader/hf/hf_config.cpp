#include "reader/hf/hf_config.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "reader/frameworks/quantization_config.hpp"
#include "reader/hf/families.hpp"
#include "reader/hf/text_part.hpp"
#include "reader/hf/used_keys.hpp"
#include "reader/multimodal/multimodal.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

using hf::ModelType;

std::vector<ModelType> all_types() {
  std::vector<ModelType> types;
  for (const auto group :
       {hf::llama_like_types(), hf::mixture_types(), hf::gpt_types(), hf::latent_types(),
        hf::encoder_types(), hf::modern_encoder_types(), hf::encoder_decoder_types(),
        hf::vision_types(), hf::tower_types(), hf::mamba_types()}) {
    types.insert(types.end(), group.begin(), group.end());
  }
  std::sort(types.begin(), types.end(),
            [](const ModelType& left, const ModelType& right) { return left.name < right.name; });
  return types;
}

/// Refuses a config whose model type nobody knows: no answer is known, whatever its keys say.
Diagnostic unknown_model_type(const Value& written, std::string_view model_type) {
  const std::vector<std::string> known = known_hf_model_types();
  const std::string nearest = nearest_name(std::string(model_type), known);
  const std::string hint = nearest.empty() ? "" : "did you mean '" + nearest + "'? ";
  Diagnostic diagnostic = error_at(written.span, "unknown model_type " + quote(model_type),
                                   hint + "known are " + joined(known));
  diagnostic.unavailable = true;
  return diagnostic;
}

Diagnostic towers_unavailable(const Value& written, const hf::TextPart& text) {
  return unavailable_at(written.span,
                        "the multimodal " + quote(written.text) + " with its " + quote(text.towers),
                        "`text_only: true` beside `hf`, or --text-only, asks for its text model "
                        "alone, without the towers' memory and time");
}

/// A key that changes what a model's class computes, and that no graph has.
struct UnfollowedKey {
  std::string_view model_type;
  std::string_view section;  ///< of the config; empty: itself
  std::string_view key;
};

// transformers 5.17, models/MODEL_TYPE/modeling_MODEL_TYPE.py. OlmoAttention clamps queries, keys
// and values in place, for which autograd keeps a clone of each: b 1, s 4096, h 4096 in bf16, 3 ·
// 33.6 MB a layer.
constexpr std::array kUnfollowed = {
    UnfollowedKey{"gpt2", {}, "reorder_and_upcast_attn"},  // eager scores by baddbmm, in fp32
    UnfollowedKey{"bloom", {}, "apply_residual_connection_post_layernorm"},
    UnfollowedKey{"bloom", {}, "slow_but_exact"},  // pretraining_tp products, one a slice
    UnfollowedKey{"mpt", "attn_config", "clip_qkv"},
    UnfollowedKey{"olmo", {}, "clip_qkv"},
    UnfollowedKey{"olmoe", {}, "clip_qkv"},
    UnfollowedKey{"opt", {}, "layerdrop"},  // leaves out layers at random
    UnfollowedKey{"gemma3_text", {}, "attn_logit_softcapping"},
    UnfollowedKey{"gemma3_text", {}, "final_logit_softcapping"},
};

/// Whether the value switches its key on: neither missing, null, false nor 0.
bool is_on(const Value* value) {
  if (value == nullptr || as_flag(value) == false) return false;
  return as_number(value).value_or(1) != 0;
}

std::vector<std::string> unfollowed_keys(std::string_view model_type, hf::ConfigReader& config) {
  std::vector<std::string> keys;
  for (const UnfollowedKey& row : kUnfollowed) {
    if (row.model_type != model_type) continue;
    hf::ConfigReader section = row.section.empty() ? config : config.section(row.section);
    if (is_on(section.find({row.key}))) keys.emplace_back(row.key);
  }
  return keys;
}

}  // namespace

std::vector<std::string> known_hf_model_types() {
  std::vector<std::string> names;
  for (const ModelType& type : all_types()) names.emplace_back(type.name);
  return names;
}

Checked<ImportedModel> import_hf_config(const Value& config, std::string name, ConfigPart part) {
  if (config.kind != ValueKind::mapping) {
    return Diagnostic{Severity::error, config.span, "a Hugging Face config is a mapping", ""};
  }
  const Value* const written = config.find("model_type");
  if (written == nullptr || written->kind != ValueKind::scalar) {
    return Diagnostic{Severity::error, config.span, "the config has no 'model_type'",
                      "it says which family the keys belong to: llama, gpt2, ..."};
  }
  const hf::TextPart text = hf::text_part_of(config);
  const bool images = part == ConfigPart::whole && hf::reads_images(written->text);
  if (part == ConfigPart::whole && text.is_part() && !images) {
    return towers_unavailable(*written, text);
  }
  const std::string_view model_type = text.is_part() ? text.model_type : written->text;
  const std::vector<ModelType> types = all_types();
  const auto type = std::find_if(types.begin(), types.end(), [&](const ModelType& candidate) {
    return candidate.name == model_type;
  });
  if (type == types.end()) return unknown_model_type(*written, model_type);
  hf::Reading reading;
  hf::ConfigReader reader(config, reading);
  if (part == ConfigPart::text && !text.is_part()) {
    reader.warning(written, quote(written->text) + " is no multimodal config: all of it is read",
                   "leave 'text_only' out");
  }
  const bool flat = text.section == nullptr && (!images || hf::has_flat_text(written->text));
  hf::ConfigReader section = flat ? reader : reader.section(hf::kTextSection);
  hf::ReadModel model = type->read(section);
  std::optional<VisionPart> vision;
  if (auto* decoder = std::get_if<DecoderSpec>(&model.architecture)) {
    decoder->unfollowed = unfollowed_keys(model_type, section);
    if (images) vision = hf::read_vision(written->text, reader, *decoder);
  }
  if (!reader.ok()) return reading.diagnostics;
  std::optional<QuantizedWeights> quantized;
  if (std::holds_alternative<DecoderSpec>(model.architecture)) {
    quantized = quantized_by(config, reading.diagnostics);
  }
  reading.used.insert(written);
  if (text.section != nullptr) reading.used.insert(text.section->find("model_type"));
  return {ImportedModel{ModelSpec{.name = std::move(name),
                                  .model_type = std::string(model_type),
                                  .family = model.family,
                                  .architecture = std::move(model.architecture),
                                  .quantized = std::move(quantized),
                                  .vision = std::move(vision),
                                  .named_for_causal_loss = model_type != "gpt2"},
                        hf::used_keys(config, reading), text.is_part() && !images},
          std::move(reading.diagnostics)};
}

Checked<ModelSpec> read_hf_config(const Value& config, std::string name, ConfigPart part) {
  Checked<ImportedModel> imported = import_hf_config(config, std::move(name), part);
  if (!imported.ok()) return imported.diagnostics();
  Diagnostics warnings = imported.diagnostics();
  return {std::move(imported).value().model, std::move(warnings)};
}

Checked<ImportedModel> import_hf_config_file(const std::string& path, ConfigPart part) {
  std::filesystem::path file = path;
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) file /= "config.json";
  const Checked<SourcePointer> source = read_argument(file.string());
  if (!source.ok()) return source.diagnostics();
  const Checked<Value> config = parse_json(source.value());
  if (!config.ok()) return config.diagnostics();
  std::string name = file.stem().string();
  if (name == "config" && file.has_parent_path()) name = file.parent_path().filename().string();
  return import_hf_config(config.value(), std::move(name), part);
}

Checked<ModelSpec> read_hf_config_file(const std::string& path, ConfigPart part) {
  Checked<ImportedModel> imported = import_hf_config_file(path, part);
  if (!imported.ok()) return imported.diagnostics();
  Diagnostics warnings = imported.diagnostics();
  return {std::move(imported).value().model, std::move(warnings)};
}

}  // namespace memest
