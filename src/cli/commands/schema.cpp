#include "memest/reader/schema.hpp"

#include "cli/command.hpp"

namespace memest {
namespace {

Outcome unknown_answer(const std::string& name) {
  const std::string nearest = nearest_name(name, answer_names());
  return {ExitCode::bad_input,
          "",
          {{Severity::error,
            {},
            "no JSON answer is called '" + name + "'",
            nearest.empty() ? "memest schema of a command that takes --format json, or of refusal"
                            : "did you mean '" + nearest + "'?",
            false}}};
}

}  // namespace

Outcome run_schema(const Arguments& arguments, const Surroundings&) {
  if (arguments.words.empty()) return {ExitCode::yes, json_schema(), {}};
  const auto schema = answer_schema(arguments.words.front());
  if (!schema) return unknown_answer(arguments.words.front());
  return {ExitCode::yes, *schema, {}};
}

}  // namespace memest
