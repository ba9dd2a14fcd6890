#include "../hf_config.hpp"

#include <algorithm>
#include <utility>

#include "families.hpp"
#include "memest/reader/hf_config.hpp"

namespace memest {
namespace {

using hf::ModelType;

std::vector<ModelType> all_types() {
  std::vector<ModelType> types;
  for (const auto group : {hf::llama_like_types(), hf::mixture_types(), hf::gpt_types(),
                           hf::latent_types(), hf::encoder_types(), hf::modern_encoder_types(),
                           hf::encoder_decoder_types(), hf::vision_types(), hf::other_types()}) {
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

Checked<ModelSpec> read_hf_config(const Value& config, std::string name) {
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
  Diagnostics diagnostics;
  hf::ConfigReader reader(config, diagnostics);
  hf::ReadModel model = type->read(reader);
  const bool failed = std::any_of(
      diagnostics.begin(), diagnostics.end(),
      [](const Diagnostic& diagnostic) { return diagnostic.severity == Severity::error; });
  if (failed) return diagnostics;
  return {ModelSpec{.name = std::move(name),
                    .model_type = model_type->text,
                    .family = model.family,
                    .architecture = std::move(model.architecture)},
          std::move(diagnostics)};
}

}  // namespace memest
