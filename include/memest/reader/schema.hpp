// The description of the spec's keys, as others use it: editors by the JSON schema, people by the
// starter spec, shells by the keys with their dots. And the JSON schemas of the answers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memest {

/// JSON Schema (draft 2020-12) of a spec file, ended by a newline.
std::string json_schema();

/// A commented spec to start from; `read_job` accepts it as it is.
std::string starter_spec();

/// Every key that takes a value, as `--set` writes it: "training.micro_batch". Those below a list
/// have no such name.
std::vector<std::string> dotted_keys();

/// The keys that a search chooses where a spec leaves them out, as `--free` takes them.
std::vector<std::string> searched_keys();

/// The names of all JSON answers: those of the commands that have one, and "refusal".
std::vector<std::string> answer_names();

/// JSON Schema (draft 2020-12) of the answer called `name`, ended by a newline; none where no
/// answer is called so.
std::optional<std::string> answer_schema(const std::string& name);

}  // namespace memest
