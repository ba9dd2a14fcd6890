// The description of the spec's keys, as others use it: editors by the JSON schema, people by the
// starter spec.
#pragma once

#include <string>

namespace memest {

/// JSON Schema (draft 2020-12) of a spec file, ended by a newline.
std::string json_schema();

/// A commented spec to start from; `read_job` accepts it as it is.
std::string starter_spec();

}  // namespace memest
