// The flags, as data: the parser binds them, the help page, the manual and the completions of
// shells list them with the words that they take, a wrong one finds its neighbour here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"

namespace memest {

/// The words that may stand as a value; null where there is no list of them.
using WordList = std::vector<std::string> (*)();

/// How far a list of words goes.
enum class Listed : std::uint8_t {
  some,  ///< what is known by name; another word may be right too
  all    ///< the parser refuses any other
};

struct FlagRow {
  std::string_view name;   ///< "--gpu"
  std::string_view value;  ///< "NAME[,NAME]"; empty for a switch; FILE where it is one
  std::string_view help;   ///< one line
  unsigned group;          ///< of Flags; kNoFlags: every command has it
  WordList words = nullptr;
  Listed listed = Listed::some;
};

std::span<const FlagRow> flag_rows();

std::string joined_by(std::string_view separator, const std::vector<std::string>& words);

/// Whether `command` takes the flag.
bool takes(const Command& command, const FlagRow& flag);

/// The words that `flag` takes in `command`; empty where there is no list.
std::vector<std::string> flag_words(const Command& command, const FlagRow& flag);

/// A word that is no flag, as the usage line names it: SPEC..., [TERM].
struct Placeholder {
  std::string_view name;  ///< "SPEC"
  bool repeats = false;   ///< any number of them
  bool is_file = false;
  WordList words = nullptr;
};

/// The placeholders of `command`, in order. One that no list knows is a file.
std::vector<Placeholder> placeholders_of(const Command& command);

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

/// The flag's line of help in `command`; that of a flag without one is its words.
std::string help_of(const Command& command, const FlagRow& flag);

/// The paragraph that says what memest is for.
std::string_view introduction();

struct ExitMeaning {
  ExitCode code;
  std::string_view meaning;
};

/// The exit codes and what they say.
std::span<const ExitMeaning> exit_meanings();

/// The page of `memest --help`, and that of `memest COMMAND --help`.
std::string overview_page(std::size_t columns);
std::string help_page(const Command& command, std::size_t columns);

}  // namespace memest
