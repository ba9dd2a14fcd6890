// The flags, as data: the parser binds them, the help page lists them, a wrong one finds its
// neighbour here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"

namespace memest {

struct FlagRow {
  std::string_view name;   ///< "--gpu"
  std::string_view value;  ///< "NAME[,NAME]"; empty for a switch
  std::string_view help;   ///< one line
  unsigned group;          ///< of Flags; kNoFlags: every command has it
};

std::span<const FlagRow> flag_rows();

/// Whether `command` takes the flag.
bool takes(const Command& command, const FlagRow& flag);

struct FormatName {
  std::string_view name;
  Format format;
  unsigned group;  ///< the Flags that allow it
};

/// The formats of `command`, text first.
std::vector<FormatName> formats_of(const Command& command);

/// Reads the words after the command's name. Throws CLI::ParseError for what the grammar refuses;
/// what it accepts and memest does not (unknown flags, formats, counts) is a diagnostic.
Checked<Arguments> parse_arguments(const Command& command, std::span<const std::string> words);

/// The page of `memest --help`, and that of `memest COMMAND --help`.
std::string overview_page(std::size_t columns);
std::string help_page(const Command& command, std::size_t columns);

}  // namespace memest
