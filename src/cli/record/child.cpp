#include "cli/record/child.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "cli/machine/interrupt.hpp"
#include "cli/machine/spawning.hpp"
#include "memest/diag/environment.hpp"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to us

namespace memest {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// This process's environment with others' values before its own.
std::vector<std::string> environment_with(const Variables& variables) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) merged[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : variables) merged[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : merged) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

int run_child(std::vector<std::string> command, const Variables& variables) {
  constexpr int kSignalled = 128;  // as shells say it
  const std::string name = command.front();
  std::vector<std::string> environment = environment_with(variables);
  const std::vector<char*> words = pointers_to(command);
  const std::vector<char*> settings = pointers_to(environment);
  Spawning spawning;
  posix_spawn_file_actions_adddup2(&spawning.actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, name.c_str(), &spawning.actions, &spawning.attributes,
                                 words.data(), settings.data());
  if (error != 0) throw EnvironmentError("cannot run '" + name + "': " + std::strerror(error));
  InterruptWatch::pass_terminations_to(child);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw EnvironmentError("cannot wait for '" + name + "'");
  }
  InterruptWatch::pass_terminations_to(0);
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace memest
