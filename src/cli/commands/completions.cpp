#include "cli/command.hpp"
#include "cli/shells/shells.hpp"

namespace memest {

Outcome run_completions(const Arguments& arguments, const Surroundings&) {
  const std::string& shell = arguments.words.front();
  std::string script = completions_for(shell);
  if (!script.empty()) return {ExitCode::yes, std::move(script), {}};
  return {ExitCode::bad_input,
          "",
          {{Severity::error,
            {},
            "memest completes for bash, zsh and fish, not for '" + shell + "'",
            "",
            false}}};
}

}  // namespace memest
