// The completions of shells and the manual pages: written from the tables of commands and flags, so
// that both know whatever the parser takes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"

namespace memest {

/// "bash", "zsh", "fish".
std::vector<std::string> shell_names();

/// The completions for the shell called so; empty where it is none of shell_names().
std::string completions_for(std::string_view shell);

std::string bash_completions();
std::string zsh_completions();
std::string fish_completions();

/// Manual pages in roff's man macros: memest(1), and memest-COMMAND(1).
std::string manual_page(std::string_view version);
std::string manual_page(const Command& command, std::string_view version);

}  // namespace memest
