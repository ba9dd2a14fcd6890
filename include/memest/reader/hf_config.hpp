// A Hugging Face config.json becomes a model. Which class of transformers it stands for follows
// from `model_type` and `architectures`; what the file leaves out has the defaults of that class in
// transformers 5.17. Keys that change neither parameters nor computation are passed over: such
// files are full of them.
#pragma once

#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// A model, with the keys of its config that decide it.
struct ImportedModel {
  ModelSpec model;
  std::string keys;  ///< YAML, one key a line: what was looked at, as it was written
};

/// Reads the config.json at `path`, or the one in the folder `path`. Throws EnvironmentError for a
/// file that cannot be opened.
Checked<ModelSpec> read_hf_config_file(const std::string& path);

/// The same, keeping the keys for write_spec.
Checked<ImportedModel> import_hf_config_file(const std::string& path);

/// Every `model_type` that is known, sorted.
std::vector<std::string> known_hf_model_types();

}  // namespace memest
