// The only place that ends the program, and the only one that catches what no input should cause.
#include <CLI/Error.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/overwritten.hpp"
#include "cli/terminal.hpp"
#include "cli/write.hpp"
#include "memest/diag/environment.hpp"
#include "memest/diag/expect.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::string_view kVersion = MEMEST_VERSION;

Outcome failed(ExitCode code, std::string message, std::string hint) {
  return {code, "", {{Severity::error, {}, std::move(message), std::move(hint)}}};
}

Outcome unknown_command(const std::string& word) {
  std::vector<std::string> known;
  for (const Command& command : commands()) known.emplace_back(command.name);
  const std::string nearest = nearest_name(word, known);
  return failed(ExitCode::bad_input, "memest has no command '" + word + "'",
                nearest.empty() ? "see memest --help" : "did you mean '" + nearest + "'?");
}

/// The diagnostics that stay under --quiet.
Diagnostics errors_of(const Diagnostics& diagnostics) {
  Diagnostics errors;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.severity == Severity::error) errors.push_back(diagnostic);
  }
  return errors;
}

/// Prints an outcome; its code is the program's.
ExitCode deliver(const Outcome& outcome, const Arguments& arguments) {
  const RenderOptions options = render_options_of(StandardStream::err, arguments.color);
  // Files first: where one cannot be written, no answer is printed.
  if (!outcome.folder.empty()) make_folder(outcome.folder);
  for (const FileBesideAnswer& file : outcome.files) write_file(file.path, file.text);
  const Diagnostics shown = arguments.quiet ? errors_of(outcome.diagnostics) : outcome.diagnostics;
  // An error replaces no file that an earlier run wrote.
  const bool has_answer = outcome.code == ExitCode::yes || outcome.code == ExitCode::no ||
                          (outcome.code == ExitCode::not_known && !outcome.out.empty());
  if (!arguments.output.empty() && outcome.folder.empty() && has_answer) {
    write_file(arguments.output, outcome.out);
  } else if (!arguments.quiet) {
    write_stream(stdout, outcome.out);
  }
  write_stream(stderr, render(shown, options));
  return outcome.code;
}

std::size_t page_columns() {
  return render_options_of(StandardStream::out, ColorWhen::never).columns;
}

ExitCode run(const Command& command, std::span<const std::string> words) {
  const Checked<Arguments> arguments = parse_arguments(command, words);
  if (!arguments.ok()) return deliver({ExitCode::bad_input, "", arguments.diagnostics()}, {});
  if (arguments.value().help) {
    return deliver({ExitCode::yes, help_page(command, page_columns()), {}}, {});
  }
  if (Diagnostics mistakes = find_overwritten(command, arguments.value()); !mistakes.empty()) {
    return deliver({ExitCode::bad_input, "", std::move(mistakes)}, {});
  }
  Surroundings surroundings;
  surroundings.out = render_options_of(StandardStream::out, arguments.value().color);
  surroundings.out.verbose = arguments.value().verbose;
  surroundings.err = render_options_of(StandardStream::err, arguments.value().color);
  surroundings.version = kVersion;
  // A file is no terminal, though standard output may be one.
  if (!arguments.value().output.empty() && arguments.value().color != ColorWhen::always) {
    surroundings.out.color = false;
  }
  return deliver(command.run(arguments.value(), surroundings), arguments.value());
}

ExitCode run(std::span<const std::string> words) {
  if (words.empty()) {
    return deliver({ExitCode::bad_input, overview_page(page_columns()), {}}, {});
  }
  const std::string& first = words.front();
  if (first == "--help" || first == "-h" || first == "help") {
    const Command* command = words.size() > 1 ? find_command(words[1]) : nullptr;
    return deliver(
        {ExitCode::yes,
         command == nullptr ? overview_page(page_columns()) : help_page(*command, page_columns()),
         {}},
        {});
  }
  if (first == "--version") {
    return deliver({ExitCode::yes, "memest " + std::string(kVersion) + "\n", {}}, {});
  }
  const Command* command = find_command(first);
  if (command == nullptr) return deliver(unknown_command(first), {});
  return run(*command, words.subspan(1));
}

/// The errors that are no answer, each with its exit code.
ExitCode run_guarded(std::span<const std::string> words) {
  try {
    return run(words);
  } catch (const CLI::ParseError& error) {
    return deliver(failed(ExitCode::bad_input, error.what(), "see memest --help"), {});
  } catch (const OverflowError& error) {
    return deliver(
        failed(ExitCode::bad_input,
               std::string("a number of this spec is too large to count: ") + error.what(),
               "sizes multiply: look for one with too many zeros"),
        {});
  } catch (const EnvironmentError& error) {
    return deliver(failed(ExitCode::environment, error.what(), ""), {});
  } catch (const std::bad_alloc&) {
    return deliver(failed(ExitCode::environment, "out of memory", ""), {});
  } catch (const std::exception& error) {
    return deliver(failed(ExitCode::internal,
                          std::string("a bug in memest, please report it with the command and its "
                                      "spec: ") +
                              error.what(),
                          ""),
                   {});
  }
}

}  // namespace
}  // namespace memest

int main(int argc, char** argv) {
  // A reader that goes away (`memest ... | head`) shows as a failed write, not as a signal.
  std::signal(SIGPIPE, SIG_IGN);
  // So does a limit on the size of files: what was written until then goes away.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return static_cast<int>(memest::run_guarded(words));
  } catch (const std::exception&) {  // not even the message could be written
    return static_cast<int>(memest::ExitCode::environment);
  }
}
