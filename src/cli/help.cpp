#include <string>
#include <string_view>

#include "cli/flags.hpp"
#include "memest/report/display.hpp"

namespace memest {
namespace {

constexpr std::string_view kIntroduction =
    "memest tells what a neural network will need before a GPU is rented: memory to the byte, "
    "FLOPs, "
    "step time and money, and what to change when it does not fit.";

constexpr std::string_view kExitCodes =
    "Exit codes: 0 yes, 1 no (does not fit, over budget), 2 bad input, 3 a file cannot be read or "
    "written, 4 not known (no answer for this model, framework or release), 70 a bug in memest.";

std::string paragraphs(std::string_view text, std::size_t columns) {
  std::string out;
  for (const std::string& line : lines_of(text, {columns, 0, false})) out += line + '\n';
  return out;
}

std::string joined_formats(const Command& command) {
  std::string names;
  for (const FormatName& row : formats_of(command)) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

/// Two columns, the second broken into lines under itself.
std::string listed(std::string_view left, std::string_view right, std::size_t left_columns,
                   std::size_t columns) {
  constexpr std::size_t kIndent = 2;
  std::string out = std::string(kIndent, ' ') + padded_right(left, left_columns);
  const std::size_t begin = kIndent + left_columns;
  bool first = display_width(left) < left_columns;
  for (const std::string& line : lines_of(right, {columns - begin, 0, false})) {
    if (!first) out += '\n' + std::string(begin, ' ');
    out += line;
    first = false;
  }
  return out + '\n';
}

}  // namespace

std::string overview_page(std::size_t columns) {
  std::string out =
      "Usage: memest COMMAND ...\n\n" + paragraphs(kIntroduction, columns) + "\nCommands:\n";
  for (const Command& command : commands())
    out += listed(command.name, command.summary, 12, columns);
  out += "\nFlags:\n";
  out += listed("--version", "prints the version", 12, columns);
  out += listed("--help", "prints this page; memest COMMAND --help that of a command", 12, columns);
  out += "\nExample:\n  " + std::string(commands().front().example) + "\n\n";
  return out + paragraphs(kExitCodes, columns);
}

std::string help_page(const Command& command, std::size_t columns) {
  std::string out = "Usage: memest " + std::string(command.name);
  if (!command.words.empty()) out += " " + std::string(command.words);
  out += " [FLAGS]\n\n" + paragraphs(std::string(command.summary) + ".", columns);
  if (!command.description.empty()) out += '\n' + paragraphs(command.description, columns);
  out += "\nFlags:\n";
  for (const FlagRow& flag : flag_rows()) {
    if (!takes(command, flag)) continue;
    std::string left(flag.name);
    if (!flag.value.empty()) left += " " + std::string(flag.value);
    out += listed(left, flag.name == "--format" ? joined_formats(command) : std::string(flag.help),
                  20, columns);
  }
  out += "\nExample:\n  " + std::string(command.example) + "\n\n";
  return out + paragraphs(kExitCodes, columns);
}

}  // namespace memest
