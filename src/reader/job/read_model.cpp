#include "reader/job/read_model.hpp"

#include <filesystem>
#include <utility>

#include "memest/diag/environment.hpp"
#include "reader/hf/hf_config.hpp"
#include "reader/text/hub_name.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

Checked<ModelSpec> read_hf_file(const Value& hf, const std::string& name, ConfigPart part) {
  try {
    const Checked<SourcePointer> source = read_source(config_path(hf));
    if (!source.ok()) return source.diagnostics();
    const Checked<Value> config = parse_json(source.value());
    if (!config.ok()) return config.diagnostics();
    return read_hf_config(config.value(), name, part);
  } catch (const EnvironmentError& error) {
    // A path inside of a spec is part of the spec, so its mistake has a place there.
    std::string hint = hint_of_hub_name(hf.text);
    if (hint.empty()) hint = "a path is relative to the file that names it";
    return error_at(hf.span, error.what(), std::move(hint));
  }
}

}  // namespace

std::string config_path(const Value& hf) {
  std::filesystem::path path = path_beside(hf.span, hf.text);
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) path /= "config.json";
  return path.string();
}

std::string name_of_source(const SourceSpan& span) {
  const std::string_view name = span.source == nullptr ? "" : std::string_view(span.source->name);
  if (name.starts_with(kPresetPrefix)) return std::string(name.substr(kPresetPrefix.size()));
  if (name.starts_with("--")) return "model";  // of a flag: no file lends it a name
  return stem_of(name);
}

std::optional<ModelSpec> read_model(const Value& model, const std::string& name,
                                    Diagnostics& diagnostics) {
  if (model.kind != ValueKind::mapping) return std::nullopt;
  ModelSpec spec;
  spec.name = name;
  if (const Value* hf = model.find("hf")) {
    const ConfigPart part =
        as_flag(model.find("text_only")).value_or(false) ? ConfigPart::text : ConfigPart::whole;
    Checked<ModelSpec> read = hf->kind == ValueKind::mapping ? read_hf_config(*hf, name, part)
                                                             : read_hf_file(*hf, name, part);
    append(read.diagnostics(), diagnostics);
    if (!read.ok()) return std::nullopt;
    spec = std::move(read).value();
    if (auto* decoder = std::get_if<DecoderSpec>(&spec.architecture)) {
      decoder->mtp_layers = as_count(model.find("mtp_num_layers")).value_or(0);
    }
    return spec;
  }
  const Value* layers = model.find("layers");
  if (layers != nullptr && layers->kind == ValueKind::sequence) {
    std::optional<LayerList> list = read_layer_list(model, diagnostics);
    if (!list) return std::nullopt;
    spec.family = Family::layer_list;
    spec.architecture = *std::move(list);
    return spec;
  }
  std::optional<DecoderSpec> decoder = read_decoder(model, diagnostics);
  if (!decoder) return std::nullopt;
  spec.family = Family::decoder;
  spec.architecture = *std::move(decoder);
  return spec;
}

}  // namespace memest
