// Manual pages in the man macros, which groff and mandoc set alike.
#include <algorithm>
#include <string>

#include "cli/flags.hpp"
#include "cli/shells/shells.hpp"

namespace memest {
namespace {

/// `text` as roff prints it: a backslash and signs that roff would take for others are spelled, and
/// no line begins with a request.
std::string roff(std::string_view text) {
  std::string out;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    at_start = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '\'') {
      out += "\\(aq";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string upper(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string head(std::string_view name, std::string_view version) {
  return ".TH " + upper(roff(name)) + " 1 \"\" \"memest " + std::string(version) + "\"\n";
}

/// Paragraphs end where the text has a line's end.
std::string paragraphs(std::string_view text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    out += (out.empty() ? "" : ".PP\n") + roff(line) + "\n";
  }
  return out;
}

std::string item(const std::string& name, const std::string& text) {
  return ".TP\n" + name + "\n" + text + "\n";
}

std::string options_of(const Command& command) {
  std::string out = ".SH OPTIONS\n";
  for (const FlagRow& flag : flag_rows()) {
    if (!takes(command, flag)) continue;
    std::string name = bold(flag.name);
    if (!flag.value.empty()) name += " " + italic(flag.value);
    out += item(name, roff(help_of(command, flag)));
  }
  return out;
}

std::string exit_status() {
  std::string out = ".SH \"EXIT STATUS\"\n";
  for (const ExitMeaning& row : exit_meanings()) {
    out += item(bold(std::to_string(static_cast<int>(row.code))), roff(row.meaning));
  }
  return out;
}

std::string example_of(const Command& command) {
  return ".SH EXAMPLES\n.nf\n" + roff(command.example) + "\n.fi\n";
}

std::string page_name(const Command& command) { return "memest-" + std::string(command.name); }

}  // namespace

std::string manual_page(std::string_view version) {
  std::string out = head("memest", version) + ".SH NAME\n" +
                    roff("memest - what a neural network will need before a GPU is rented\n") +
                    ".SH SYNOPSIS\n" + bold("memest") + " " + italic("COMMAND") + " ...\n" +
                    ".SH DESCRIPTION\n" + paragraphs(introduction()) + ".SH COMMANDS\n";
  for (const Command& command : commands()) out += item(bold(command.name), roff(command.summary));
  out += ".SH OPTIONS\n" + item(bold("--help"), "prints the overview") +
         item(bold("--version"), "prints the version and what it was built of") + exit_status() +
         example_of(commands().front()) + ".SH \"SEE ALSO\"\n";
  for (const Command& command : commands()) {
    out += ".BR " + roff(page_name(command)) + " (1)" +
           (&command == &commands().back() ? "" : ",") + "\n";
  }
  return out;
}

std::string manual_page(const Command& command, std::string_view version) {
  std::string out = head(page_name(command), version) + ".SH NAME\n" +
                    roff(page_name(command) + " - " + std::string(command.summary)) +
                    "\n.SH SYNOPSIS\n" + bold("memest " + std::string(command.name));
  const std::string flags = " [" + italic("FLAGS") + "]";
  const std::string words = command.words.empty() ? "" : " " + italic(command.words);
  out += ((command.flags & kRunFlags) != 0 ? flags + " --" + words : words + flags) + "\n";
  if (!command.description.empty()) out += ".SH DESCRIPTION\n" + paragraphs(command.description);
  return out + options_of(command) + exit_status() + example_of(command) +
         ".SH \"SEE ALSO\"\n.BR memest (1)\n";
}

}  // namespace memest
