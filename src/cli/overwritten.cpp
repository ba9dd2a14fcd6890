#include "cli/overwritten.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/lock/lock_file.hpp"
#include "cli/machine/git.hpp"
#include "cli/spec.hpp"
#include "memest/reader/named_files.hpp"
#include "memest/reader/spec_files.hpp"
#include "memest/reader/written_spec.hpp"

namespace memest {
namespace {

constexpr const char* kAnotherFile = "choose another file";

/// A link and what it points to are one file. A device or a pipe can be read and written.
bool is_same_file(const std::string& left, const std::string& right) {
  std::error_code unknown;
  if (std::filesystem::is_other(left, unknown)) return false;
  return left == right || std::filesystem::equivalent(left, right, unknown);
}

std::vector<std::string> words_read(const Arguments& arguments) {
  std::vector<std::string> files;
  std::error_code unknown;
  for (const std::string& word : arguments.words) {  // a folder stands for the config in it
    const bool folder = std::filesystem::is_directory(word, unknown);
    files.push_back(folder ? word + "/config.json" : word);
  }
  return files;
}

/// The specs that the words stand for, without what is found and passed over, as the report of an
/// earlier run is.
std::vector<std::string> specs_read(const Arguments& arguments) {
  std::vector<std::string> files;
  const Checked<std::vector<FoundFile>> found = find_spec_files(arguments.words);
  if (!found.ok()) return files;
  for (const FoundFile& file : found.value()) {
    if (file.named || read_written_spec(file.path).is_spec) files.push_back(file.path);
  }
  return files;
}

using SpecQuestion = std::vector<std::string>;

/// The words that are read together: of a repository each spec by itself.
std::vector<SpecQuestion> questions_of(const Command& command, const Arguments& arguments) {
  std::vector<SpecQuestion> questions;
  // Standard input can be read once, and that is the answer's.
  const bool read_twice = std::ranges::find(arguments.words, "-") == arguments.words.end();
  if ((command.flags & kLockFlags) != 0) {
    for (const std::string& spec : specs_read(arguments)) {
      if (is_lockable(spec)) questions.push_back({spec});
    }
  } else if ((command.flags & kSpecFlags) != 0 && read_twice) {
    // Words may be one spec in parts, or specs of their own; a git revision is no file.
    SpecQuestion together;
    for (const std::string& word : arguments.words) {
      if (names_revision(word)) continue;
      together.push_back(word);
      questions.push_back({word});
    }
    if (!together.empty()) questions.push_back(together);
  }
  return questions;
}

std::vector<std::string> files_read(const Command& command, const Arguments& arguments) {
  std::vector<std::string> files = words_read(arguments);
  files.insert(files.end(), arguments.from.begin(), arguments.from.end());
  const bool reads_lock = (command.flags & kLockFlags) != 0 && !arguments.update;
  const std::string lock = reads_lock ? lock_path_of(arguments) : "";
  for (const std::string& file : {arguments.lines, arguments.against, lock}) {
    if (!file.empty()) files.push_back(file);
  }
  for (const SpecQuestion& question : questions_of(command, arguments)) {
    files.insert(files.end(), question.begin(), question.end());
    const std::vector<std::string> named = files_named_in(request_of(arguments, question));
    files.insert(files.end(), named.begin(), named.end());
  }
  return files;
}

/// A spec that somebody may have gone on writing. A device or a pipe is no such file.
Diagnostics find_unforced(const Command& command, const Arguments& arguments) {
  std::error_code unknown;
  const bool refuses = (command.flags & kForceFlag) != 0 && !arguments.force;
  if (!refuses || !std::filesystem::is_regular_file(arguments.output, unknown)) return {};
  return {{Severity::error,
           {},
           "'" + arguments.output + "' exists, and may hold what somebody wrote",
           "--force replaces it",
           false}};
}

}  // namespace

Diagnostics find_overwritten(const Command& command, const Arguments& arguments) {
  const std::string lock = arguments.update ? lock_path_of(arguments) : "";
  const std::array<std::pair<std::string_view, const std::string&>, 10> written = {
      {{"--output", arguments.output},
       {"--lock", lock},
       {"--html", arguments.html},
       {"--csv", arguments.csv},
       {"--snapshot", arguments.snapshot},
       {"--trace", arguments.trace},
       {"--pack", arguments.pack},
       {"--actions", arguments.actions},
       {"--plot", arguments.plot},
       {"--residuals", arguments.residuals}}};
  const bool writes = std::ranges::any_of(
      written, [](const auto& flag_and_path) { return !flag_and_path.second.empty(); });
  if (!writes) return {};
  const std::vector<std::string> read = files_read(command, arguments);
  Diagnostics mistakes;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto& [flag, path] = written[i];
    if (path.empty()) continue;
    for (const std::string& file : read) {
      if (!is_same_file(path, file)) continue;
      mistakes.push_back(
          mistake(std::string(flag) + " would overwrite '" + file + "', which this command reads",
                  kAnotherFile));
      break;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (written[j].second.empty() || !is_same_file(path, written[j].second)) continue;
      mistakes.push_back(mistake(std::string(written[j].first) + " and " + std::string(flag) +
                                     " name one file, '" + path + "'",
                                 kAnotherFile));
    }
  }
  if (mistakes.empty()) mistakes = find_unforced(command, arguments);
  return mistakes;
}

}  // namespace memest
