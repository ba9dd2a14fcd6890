// The keys of a config that its reader looked at, written as YAML that reads back to the same
// model.
#pragma once

#include <string>

#include "reader/hf/config_reader.hpp"

namespace memest::hf {

/// One key a line, in the config's order, `model_type` first.
std::string used_keys(const Value& config, const Reading& reading);

}  // namespace memest::hf
