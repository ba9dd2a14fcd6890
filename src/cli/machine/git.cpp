#include "cli/machine/git.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/machine/spawning.hpp"
#include "memest/diag/environment.hpp"
#include "memest/reader/named_files.hpp"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to us

namespace memest {
namespace {

/// More than any reader takes of a spec.
constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

struct Finished {
  int code = 0;
  std::string out;
  std::string err;

  [[nodiscard]] bool ok() const { return code == 0; }
  /// Git's own sentence, without its "fatal: ".
  [[nodiscard]] std::string reason() const {
    std::string line = err.substr(0, err.find('\n'));
    constexpr std::string_view kFatal = "fatal: ";
    if (line.starts_with(kFatal)) line.erase(0, kFatal.size());
    return line;
  }
};

[[noreturn]] void cannot_run(int error) {
  throw EnvironmentError("cannot run 'git': " + std::string(std::strerror(error)));
}

/// Both ends of a pipe, closed with it.
struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) cannot_run(errno);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(std::size_t end) {
    if (ends.at(end) >= 0) close(ends.at(end));
    ends.at(end) = -1;
  }

  std::array<int, 2> ends{-1, -1};
};

/// Reads what comes; false at the end, or where there is too much.
bool read_some(int descriptor, std::string& text) {
  std::array<char, 1 << 16> piece{};
  const ssize_t size = read(descriptor, piece.data(), piece.size());
  if (size < 0 && errno == EINTR) return true;
  if (size <= 0) return false;
  text.append(piece.data(), static_cast<std::size_t>(size));
  return text.size() <= kMostBytes;
}

void read_both(Pipe& out, Pipe& err, Finished& finished) {
  std::array<std::pair<Pipe*, std::string*>, 2> sources = {
      {{&out, &finished.out}, {&err, &finished.err}}};
  while (out.ends[0] >= 0 || err.ends[0] >= 0) {
    std::array<pollfd, 2> waiting{};
    for (std::size_t i = 0; i < sources.size(); ++i) {
      waiting.at(i) = {sources.at(i).first->ends[0], POLLIN, 0};  // a negative one is passed over
    }
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) cannot_run(errno);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      auto& [pipe, text] = sources.at(i);
      if (waiting.at(i).revents == 0 || read_some(pipe->ends[0], *text)) continue;
      pipe->close_end(0);
    }
  }
}

/// Runs git with these arguments, none of which a shell sees.
Finished run_git(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "git");
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  Pipe out;
  Pipe err;
  Spawning spawning;
  posix_spawn_file_actions_addopen(&spawning.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&spawning.actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&spawning.actions, err.ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, "git", &spawning.actions, &spawning.attributes, words.data(), environ);
  if (error != 0) cannot_run(error);
  out.close_end(1);
  err.close_end(1);
  Finished finished;
  read_both(out, err, finished);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) cannot_run(errno);
  }
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return finished;
}

Diagnostic refusal(const std::string& name, std::string message, std::string hint) {
  const auto source = std::make_shared<const SourceText>(SourceText{name, ""});
  return {Severity::error, {source, 0, 0, 0}, std::move(message), std::move(hint)};
}

/// REVISION:PATH, taken apart.
struct RevisionPath {
  std::string revision;  ///< empty: the index
  std::string path;      ///< from the repository's top

  [[nodiscard]] std::string text() const { return revision + ":" + path; }
};

RevisionPath revision_path_of(const std::string& name) {
  const std::size_t colon = name.find(':');
  RevisionPath parts{name.substr(0, colon), name.substr(colon + 1)};
  std::filesystem::path path = parts.path;
  if (parts.path.starts_with("./") || parts.path.starts_with("../")) {
    std::string prefix = run_git({"rev-parse", "--show-prefix"}).out;
    path = prefix.substr(0, prefix.find('\n')) / path;
  }
  parts.path = path.lexically_normal().string();
  return parts;
}

void require_repository(const std::string& name) {
  const Finished found = run_git({"rev-parse", "--git-dir"});
  if (found.ok()) return;
  throw EnvironmentError("'" + name +
                         "' is of a git revision, and there is no repository: " + found.reason());
}

}  // namespace

bool names_revision(const std::string& word) {
  std::error_code unknown;
  return word.find(':') != std::string::npos && !std::filesystem::exists(word, unknown);
}

Checked<std::shared_ptr<const SourceText>> read_revision(const std::string& name) {
  require_repository(name);
  RevisionPath parts = revision_path_of(name);
  const std::string& revision = parts.revision;
  // A revision that begins with a hyphen would be an option of git's.
  const bool known = revision.empty() ||
                     (revision.front() != '-' &&
                      run_git({"rev-parse", "--verify", "--quiet", revision + "^{tree}"}).ok());
  if (!known) {
    return refusal(name, "git knows no revision '" + revision + "'",
                   "git log --oneline lists them");
  }
  Finished type = run_git({"cat-file", "-t", parts.text()});
  const std::string shown = parts.text();
  if (type.ok() && type.out == "tree\n") {
    parts.path += parts.path.ends_with('/') ? "config.json" : "/config.json";
    type = run_git({"cat-file", "-t", parts.text()});
  }
  if (!type.ok() || type.out != "blob\n") {
    return refusal(name,
                   (revision.empty() ? "the index" : "revision '" + revision + "'") +
                       " has no file '" + parts.path + "'",
                   "a path counts from the top of the repository, one that begins with ./ from "
                   "here");
  }
  Finished blob = run_git({"cat-file", "blob", parts.text()});
  if (!blob.ok()) throw EnvironmentError("git cannot read '" + name + "': " + blob.reason());
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (blob.out.starts_with(kByteOrderMark)) blob.out.erase(0, kByteOrderMark.size());
  return std::make_shared<const SourceText>(SourceText{shown, std::move(blob.out)});
}

Checked<ReadRequest> with_revisions(ReadRequest request) {
  Diagnostics mistakes;
  const auto add = [&](const std::string& name) {
    auto text = read_revision(name);
    if (text.ok()) request.texts.push_back(text.value());
    append(text.diagnostics(), mistakes);
  };
  std::vector<std::string> revisions;
  for (std::string& file : request.files) {
    if (!names_revision(file)) continue;
    add(file);
    if (!mistakes.empty()) return mistakes;
    file = request.texts.back()->name;
    revisions.push_back(file.substr(0, file.find(':') + 1));
  }
  if (revisions.empty()) return request;
  for (const std::string& file : files_named_in(request)) {
    for (const std::string& revision : revisions) {
      if (!file.starts_with(revision)) continue;
      add(file);
      break;
    }
  }
  if (!mistakes.empty()) return mistakes;
  return request;
}

}  // namespace memest
