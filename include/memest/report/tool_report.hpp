// The program about itself, for programs that run it: its commands and flags, what it was built of,
// and why there is no answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"

namespace memest {

struct FlagFacts {
  std::string_view name;           ///< "--objective"
  std::string_view value;          ///< "NAME"; empty for a switch
  std::string help;                ///< one line
  std::vector<std::string> words;  ///< all that the flag takes; empty where there is no such list
};

struct CommandFacts {
  std::string_view name;
  std::string_view summary;
  std::string_view words;  ///< "SPEC..."
  std::string_view description;
  std::string_view example;
  std::vector<FlagFacts> flags;
};

struct ExitFacts {
  int code = 0;
  std::string_view meaning;
};

struct ToolFacts {
  std::string_view version;
  std::vector<CommandFacts> commands;
  std::vector<ExitFacts> exit_codes;
};

/// The JSON answer of `memest --help`.
std::string help_json(const ToolFacts& tool);

struct BuildFacts {
  std::string_view version;   ///< "0.1.0"
  std::string_view revision;  ///< of git; empty where the sources came without it
  std::string_view compiler;  ///< "GNU 12.2.0"
  std::string_view build_type;
  bool has_gpu_module = false;
};

/// The answer of `memest --version`: "memest 0.1.0", then a fact a line, and the releases of the
/// programs whose behaviour is modelled.
std::string version_text(const BuildFacts& build);
std::string version_json(const BuildFacts& build);

}  // namespace memest
