// The reader of a config.json that is already a tree: the file of its own, and the one inside a
// spec.
#pragma once

#include <string>

#include "memest/reader/hf_config.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The model that `config` describes, called `name`; every mistake at its place.
Checked<ModelSpec> read_hf_config(const Value& config, std::string name,
                                  ConfigPart part = ConfigPart::whole);

/// As above, keeping the keys that decided it.
Checked<ImportedModel> import_hf_config(const Value& config, std::string name,
                                        ConfigPart part = ConfigPart::whole);

}  // namespace memest
