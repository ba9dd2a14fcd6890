#include "cli/command.hpp"
#include "cli/shells/shells.hpp"

namespace memest {

Outcome run_man(const Arguments& arguments, const Surroundings& surroundings) {
  if (arguments.words.empty()) return {ExitCode::yes, manual_page(surroundings.version), {}};
  const std::string& name = arguments.words.front();
  const Command* command = find_command(name);
  if (command == nullptr) return unknown_command(name);
  return {ExitCode::yes, manual_page(*command, surroundings.version), {}};
}

}  // namespace memest
