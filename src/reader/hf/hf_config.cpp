#include "../hf_config.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "../source.hpp"
#include "families.hpp"
#include "memest/diag/expect.hpp"
#include "used_keys.hpp"

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

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Diagnostic unknown_model_type(const Value& written) {
  const std::vector<std::string> known = known_hf_model_types();
  const std::string nearest = nearest_name(written.text, known);
  const std::string hint = nearest.empty() ? "" : "did you mean '" + nearest + "'? ";
  return {Severity::error, written.span, "unknown model_type '" + written.text + "'",
          hint + "known are " + joined(known)};
}

}  // namespace

std::vector<std::string> known_hf_model_types() {
  std::vector<std::string> names;
  for (const ModelType& type : all_types()) names.emplace_back(type.name);
  return names;
}

hf::ReadModel hf::read_model_type(std::string_view model_type, ConfigReader& config) {
  const std::vector<ModelType> types = all_types();
  const auto type = std::find_if(types.begin(), types.end(), [&](const ModelType& candidate) {
    return candidate.name == model_type;
  });
  expect(type != types.end(), "a family that stands for another names a known one");
  return type->read(config);
}

Checked<ImportedModel> import_hf_config(const Value& config, std::string name) {
  if (config.kind != ValueKind::mapping) {
    return Diagnostic{Severity::error, config.span, "a Hugging Face config is a mapping", ""};
  }
  const Value* const model_type = config.find("model_type");
  if (model_type == nullptr || model_type->kind != ValueKind::scalar) {
    return Diagnostic{Severity::error, config.span, "the config has no 'model_type'",
                      "it says which family the keys belong to: llama, gpt2, ..."};
  }
  const std::vector<ModelType> types = all_types();
  const auto type = std::find_if(types.begin(), types.end(), [&](const ModelType& candidate) {
    return candidate.name == model_type->text;
  });
  if (type == types.end()) return unknown_model_type(*model_type);
  hf::Reading reading;
  hf::ConfigReader reader(config, reading);
  hf::ReadModel model = type->read(reader);
  if (!reader.ok()) return reading.diagnostics;
  reading.used.insert(model_type);
  return {ImportedModel{ModelSpec{.name = std::move(name),
                                  .model_type = model.text_model_type.empty()
                                                    ? model_type->text
                                                    : std::string(model.text_model_type),
                                  .family = model.family,
                                  .architecture = std::move(model.architecture)},
                        hf::used_keys(config, reading)},
          std::move(reading.diagnostics)};
}

Checked<ModelSpec> read_hf_config(const Value& config, std::string name) {
  Checked<ImportedModel> imported = import_hf_config(config, std::move(name));
  if (!imported.ok()) return imported.diagnostics();
  Diagnostics warnings = imported.diagnostics();
  return {std::move(imported).value().model, std::move(warnings)};
}

Checked<ImportedModel> import_hf_config_file(const std::string& path) {
  std::filesystem::path file = path;
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) file /= "config.json";
  const Checked<SourcePointer> source = read_source(file.string());
  if (!source.ok()) return source.diagnostics();
  const Checked<Value> config = parse_json(source.value());
  if (!config.ok()) return config.diagnostics();
  std::string name = file.stem().string();
  if (name == "config" && file.has_parent_path()) name = file.parent_path().filename().string();
  return import_hf_config(config.value(), std::move(name));
}

Checked<ModelSpec> read_hf_config_file(const std::string& path) {
  Checked<ImportedModel> imported = import_hf_config_file(path);
  if (!imported.ok()) return imported.diagnostics();
  Diagnostics warnings = imported.diagnostics();
  return {std::move(imported).value().model, std::move(warnings)};
}

}  // namespace memest
