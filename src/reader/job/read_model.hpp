// `model` as a ModelSpec. The readers of this room that build specs come after check_table: a value
// that is not well formed has been reported, counts as absent here, and so only relations between
// well-formed values are looked at.
#pragma once

#include <optional>
#include <string>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/model.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The config that `hf` names. A path in a spec is relative to the spec; a folder stands for the
/// config.json in it.
std::string config_path(const Value& hf);

/// The name that people call the model at `span`: the preset's or the file's name.
std::string name_of_source(const SourceSpan& span);

/// Nothing where a diagnostic says why. `name` is the model's name for people.
std::optional<ModelSpec> read_model(const Value& model, const std::string& name,
                                    Diagnostics& diagnostics);

std::optional<DecoderSpec> read_decoder(const Value& model, Diagnostics& diagnostics);
std::optional<LayerList> read_layer_list(const Value& model, Diagnostics& diagnostics);

}  // namespace memest
