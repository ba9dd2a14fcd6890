// The only place that ends the program.
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/guard.hpp"
#include "cli/machine/interrupt.hpp"
#include "cli/machine/terminal.hpp"
#include "cli/machine/write.hpp"
#include "cli/overwritten.hpp"
#include "cli/version/version.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/report/tool_report.hpp"

namespace memest {
namespace {

/// The diagnostics that stay under --quiet.
Diagnostics errors_of(const Diagnostics& diagnostics) {
  Diagnostics errors;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.severity == Severity::error) errors.push_back(diagnostic);
  }
  return errors;
}

/// Whether the words ask for JSON, be they otherwise right or wrong.
bool ask_for_json(std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool separate = words[i] == "--format" && i + 1 < words.size() && words[i + 1] == "json";
    if (separate || words[i] == "--format=json") return true;
  }
  return false;
}

/// Words that could not be read, or were not read yet: only how to say so is known of them.
Arguments unread(std::span<const std::string> words) {
  Arguments arguments;
  if (ask_for_json(words)) arguments.format = Format::json;
  return arguments;
}

/// Prints an outcome; its code is the program's.
ExitCode deliver(const Outcome& outcome, const Arguments& arguments) {
  const RenderOptions options = render_options_of(StandardStream::err, arguments.color);
  // Files first: where one cannot be written, no answer is printed.
  const bool in_a_file = write_files(outcome, arguments);
  const Diagnostics shown = arguments.quiet ? errors_of(outcome.diagnostics) : outcome.diagnostics;
  if (!in_a_file && !arguments.quiet) write_stream(stdout, outcome.out);
  write_stream(stderr, render(shown, options));
  const bool is_answer = outcome.code == ExitCode::yes || outcome.code == ExitCode::no;
  if (!is_answer && outcome.out.empty() && arguments.format == Format::json && !arguments.quiet) {
    write_stream(stdout, refusal_json(static_cast<int>(outcome.code), outcome.diagnostics));
  }
  return outcome.code;
}

/// The commands with all that they take, as JSON.
std::string described(std::span<const Command> described) {
  ToolFacts tool{.version = build_facts().version, .commands = {}, .exit_codes = {}};
  for (const Command& command : described) {
    CommandFacts facts{command.name,        command.summary, command.words,
                       command.description, command.example, {}};
    for (const FlagRow& flag : flag_rows()) {
      if (!takes(command, flag)) continue;
      const bool has_all = flag.listed == Listed::all || flag.words == nullptr;
      facts.flags.push_back({flag.name, flag.value, std::string(flag.help),
                             has_all ? flag_words(command, flag) : std::vector<std::string>()});
    }
    tool.commands.push_back(std::move(facts));
  }
  for (const ExitMeaning& row : exit_meanings()) {
    tool.exit_codes.push_back({static_cast<int>(row.code), row.meaning});
  }
  return help_json(tool);
}

/// The help of a command, or of memest where there is none.
Outcome help_on(const Command* command, Format format) {
  if (format == Format::json) {
    return {ExitCode::yes, described(command == nullptr ? commands() : std::span(command, 1)), {}};
  }
  const std::size_t columns = render_options_of(StandardStream::out, ColorWhen::never).columns;
  return {ExitCode::yes,
          command == nullptr ? overview_page(columns) : help_page(*command, columns),
          {}};
}

ExitCode run(const Command& command, std::span<const std::string> words) {
  const Checked<Arguments> checked = parse_arguments(command, words.subspan(1));
  if (!checked.ok()) {
    return deliver({ExitCode::bad_input, "", checked.diagnostics()}, unread(words));
  }
  const Arguments& arguments = checked.value();
  if (arguments.help) return deliver(help_on(&command, arguments.format), {});
  if (Diagnostics mistakes = find_overwritten(command, arguments); !mistakes.empty()) {
    return deliver({ExitCode::bad_input, "", std::move(mistakes)}, unread(words));
  }
  Surroundings surroundings;
  surroundings.out = render_options_of(StandardStream::out, arguments.color);
  surroundings.out.verbose = arguments.verbose;
  surroundings.err = render_options_of(StandardStream::err, arguments.color);
  surroundings.version = build_facts().version;
  surroundings.words = words;
  // A file is no terminal, though standard output may be one.
  if (!arguments.output.empty() && arguments.color != ColorWhen::always) {
    surroundings.out.color = false;
  }
  return deliver(command.run(arguments, surroundings), arguments);
}

ExitCode run(std::span<const std::string> words) {
  if (words.empty()) {
    Outcome overview = help_on(nullptr, Format::text);
    overview.code = ExitCode::bad_input;
    return deliver(overview, {});
  }
  const std::string& first = words.front();
  const Format format = unread(words).format;
  if (first == "--help" || first == "-h" || first == "help") {
    return deliver(help_on(words.size() > 1 ? find_command(words[1]) : nullptr, format), {});
  }
  if (first == "--version") {
    const BuildFacts build = build_facts();
    return deliver(
        {ExitCode::yes, format == Format::json ? version_json(build) : version_text(build), {}},
        {});
  }
  const Command* command = find_command(first);
  if (command == nullptr) return deliver(unknown_command(first), unread(words));
  return run(*command, words);
}

/// An answer is printed by then; an error is not yet.
ExitCode run_guarded(std::span<const std::string> words) {
  std::optional<ExitCode> code;
  const Outcome error = guarded([&] {
    code = run(words);
    return Outcome{};
  });
  return code ? *code : deliver(error, unread(words));
}

}  // namespace
}  // namespace memest

int main(int argc, char** argv) {
  // A reader that goes away (`memest ... | head`) shows as a failed write, not as a signal.
  std::signal(SIGPIPE, SIG_IGN);
  // So does a limit on the size of files: what was written until then goes away.
  std::signal(SIGXFSZ, SIG_IGN);
  memest::end_when_interrupted();
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return static_cast<int>(memest::run_guarded(words));
  } catch (const std::exception&) {  // not even the message could be written
    return static_cast<int>(memest::ExitCode::environment);
  }
}
