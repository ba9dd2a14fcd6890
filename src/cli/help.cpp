#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.hpp"
#include "memest/report/display.hpp"

namespace memest {
namespace {

constexpr std::string_view kIntroduction =
    "memest tells what a neural network will need before a GPU is rented: memory to the byte, "
    "FLOPs, "
    "step time and money, and what to change when it does not fit.";

constexpr std::array<ExitMeaning, 7> kExitMeanings = {{
    {ExitCode::yes, "yes"},
    {ExitCode::no, "no (does not fit, over budget)"},
    {ExitCode::bad_input, "bad input"},
    {ExitCode::environment, "a file cannot be read or written"},
    {ExitCode::not_known, "not known (no answer for this model, framework or release)"},
    {ExitCode::internal, "a bug in memest"},
    {ExitCode::interrupted, "interrupted"},
}};

std::string exit_codes() {
  std::string text = "Exit codes:";
  for (const ExitMeaning& row : kExitMeanings) {
    text += (text.ends_with(':') ? " " : ", ") + std::to_string(static_cast<int>(row.code)) + ' ' +
            std::string(row.meaning);
  }
  return text + '.';
}

std::string paragraphs(std::string_view text, std::size_t columns) {
  std::string out;
  for (const std::string& line : lines_of(text, {columns, 0, false})) out += line + '\n';
  return out;
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

std::string_view introduction() { return kIntroduction; }

std::span<const ExitMeaning> exit_meanings() { return kExitMeanings; }

std::string help_of(const Command& command, const FlagRow& flag) {
  return flag.help.empty() ? joined_by(", ", flag_words(command, flag)) : std::string(flag.help);
}

std::string overview_page(std::size_t columns) {
  std::string out =
      "Usage: memest COMMAND ...\n\n" + paragraphs(kIntroduction, columns) + "\nCommands:\n";
  for (const Command& command : commands())
    out += listed(command.name, command.summary, 12, columns);
  out += "\nFlags:\n";
  out += listed("--version", "prints the version and what it was built of", 12, columns);
  out += listed("--help", "prints this page; memest COMMAND --help that of a command", 12, columns);
  out += "\nExample:\n  " + std::string(commands().front().example) + "\n\n";
  return out + paragraphs(exit_codes(), columns);
}

std::string help_page(const Command& command, std::size_t columns) {
  std::string out = "Usage: memest " + std::string(command.name);
  if ((command.flags & kRunFlags) != 0) {
    out += " [FLAGS] -- " + std::string(command.words);
  } else {
    if (!command.words.empty()) out += " " + std::string(command.words);
    out += " [FLAGS]";
  }
  out += "\n\n" + paragraphs(std::string(command.summary) + ".", columns);
  if (!command.description.empty()) out += '\n' + paragraphs(command.description, columns);
  out += "\nFlags:\n";
  for (const FlagRow& flag : flag_rows()) {
    if (!takes(command, flag)) continue;
    std::string left(flag.name);
    if (!flag.value.empty()) left += " " + std::string(flag.value);
    out += listed(left, help_of(command, flag), 20, columns);
  }
  out += "\nExample:\n  " + std::string(command.example) + "\n\n";
  return out + paragraphs(exit_codes(), columns);
}

}  // namespace memest
