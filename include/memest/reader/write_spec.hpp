// A spec file for a model that came from a Hugging Face config.
#pragma once

#include <string>

#include "memest/reader/hf_config.hpp"

namespace memest {

/// A commented spec of the model and a training section to start from. Where the keys of `family:
/// decoder` say all that the config says they stand there, otherwise the config's own under `model:
/// {hf: ...}`; a comment tells which. read_job makes of it the same model again.
std::string write_spec(const ImportedModel& imported);

}  // namespace memest
