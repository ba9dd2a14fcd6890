#include "cli/guard.hpp"

#include <CLI/Error.hpp>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cli/machine/write.hpp"
#include "memest/diag/environment.hpp"
#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

Outcome failed(ExitCode code, std::string message, std::string hint) {
  return {code, "", {{Severity::error, {}, std::move(message), std::move(hint)}}};
}

}  // namespace

Outcome guarded(const std::function<Outcome()>& answer) {
  try {
    return answer();
  } catch (const CLI::ParseError& error) {
    return failed(ExitCode::bad_input, error.what(), "see memest --help");
  } catch (const OverflowError& error) {
    return failed(ExitCode::bad_input,
                  std::string("a number of this spec is too large to count: ") + error.what(),
                  "sizes multiply: look for one with too many zeros");
  } catch (const EnvironmentError& error) {
    return failed(ExitCode::environment, error.what(), "");
  } catch (const std::bad_alloc&) {
    return failed(ExitCode::environment, "out of memory", "");
  } catch (const std::exception& error) {
    return failed(ExitCode::internal,
                  std::string("a bug in memest, please report it with the command and its spec: ") +
                      error.what(),
                  "");
  }
}

bool write_files(const Outcome& outcome, const Arguments& arguments) {
  if (!outcome.folder.empty()) make_folder(outcome.folder);
  for (const FileBesideAnswer& file : outcome.files) write_file(file.path, file.text);
  const bool has_answer =
      outcome.code == ExitCode::yes || outcome.code == ExitCode::no || !outcome.out.empty();
  if (arguments.output.empty() || outcome.prints_answer || !has_answer) return false;
  write_file(arguments.output, outcome.out);
  return true;
}

}  // namespace memest
