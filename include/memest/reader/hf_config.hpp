// A Hugging Face config.json becomes a model. Which class of transformers it stands for follows
// from `model_type` and `architectures`; what the file leaves out has the defaults of that class in
// transformers 5.17. Keys that change neither parameters nor computation are passed over: such
// files are full of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// Which part of a config is read. A multimodal config is refused as a whole: its towers are not
/// known, and a text model is no answer for all of it unless that is what was asked for.
enum class ConfigPart : std::uint8_t { whole, text };

/// A model, with the keys of its config that decide it.
struct ImportedModel {
  ModelSpec model;
  std::string keys;      ///< YAML, one key a line: what was looked at, as it was written
  bool is_part = false;  ///< the text model of a multimodal config
};

/// Reads the config.json at `path`, or the one in the folder `path`. Throws EnvironmentError for a
/// file that cannot be opened.
Checked<ModelSpec> read_hf_config_file(const std::string& path,
                                       ConfigPart part = ConfigPart::whole);

/// As above, from a file; keeps the keys for write_spec.
Checked<ImportedModel> import_hf_config_file(const std::string& path,
                                             ConfigPart part = ConfigPart::whole);

/// Every `model_type` that is known, sorted.
std::vector<std::string> known_hf_model_types();

}  // namespace memest
