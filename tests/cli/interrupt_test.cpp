// Ctrl-C: exit code 130, no file, no half of one. Each test waits for what it needs, never for a
// time.
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "shell.hpp"

namespace memest {
namespace {

/// An empty folder that goes away with the test.
struct InterruptScratch {
  InterruptScratch()
      : path(std::filesystem::temp_directory_path() /
             ("memest-interrupt-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  InterruptScratch(const InterruptScratch&) = delete;
  InterruptScratch& operator=(const InterruptScratch&) = delete;
  ~InterruptScratch() { std::filesystem::remove_all(path); }

  [[nodiscard]] std::string file(const std::string& name) const { return (path / name).string(); }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  std::filesystem::path path;
};

/// The program, started with both streams thrown away.
pid_t start(const std::vector<std::string>& words) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child > 0) return child;
  const int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  std::vector<char*> arguments{const_cast<char*>(MEMEST_BINARY)};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(MEMEST_BINARY, arguments.data());
  _exit(127);
}

/// As wait(2) has it.
int status_of(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

TEST_CASE("Ctrl-C ends every long command with exit code 130, and leaves no file") {
  const InterruptScratch scratch;
  const std::string spec = scratch.file("spec");
  const std::string command =
      GENERATE("plan", "fit", "schedule", "check", "validate", "estimate", "timeline");
  const int signal = GENERATE(SIGINT, SIGTERM);
  REQUIRE(mkfifo(spec.c_str(), 0600) == 0);
  const pid_t child = start({command, spec, "--output", scratch.file("answer")});
  // Opening a pipe waits for its reader: from here on the command reads its spec, which never ends.
  const int writer = open(spec.c_str(), O_WRONLY);
  REQUIRE(writer >= 0);
  kill(child, signal);
  const int status = status_of(child);
  close(writer);
  INFO(command);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(scratch.names() == std::vector<std::string>{"spec"});
}

std::ptrdiff_t threads_of(pid_t process) {
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(process) + "/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST_CASE("Ctrl-C ends a search while its threads work") {
  const InterruptScratch scratch;
  const std::string spec = scratch.file("spec.yaml");
  std::ofstream(spec) << "model: llama-3-70b\ntraining: {seq_len: 4096, global_batch: 4096}\n";
  const pid_t child = start({"plan", spec, "--gpu", "all", "--gpus", "512,1024,2048", "--threads",
                             "2", "--format", "json", "--output", scratch.file("answer")});
  int status = 0;
  while (threads_of(child) == 1) REQUIRE(waitpid(child, &status, WNOHANG) == 0);
  kill(child, SIGINT);
  status = status_of(child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(scratch.names() == std::vector<std::string>{"spec.yaml"});
}

TEST_CASE("Ctrl-C while a file is being written leaves the whole of it, or nothing") {
  const InterruptScratch scratch;
  const std::string whole = run_shell("memest gpus --format json").out;
  const int watch = inotify_init();
  REQUIRE(inotify_add_watch(watch, scratch.path.c_str(), IN_CREATE) >= 0);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = start({"gpus", "--format", "json", "--output", scratch.file("answer")});
    // The first event is the file beside the answer's: it is open, and nothing is renamed yet.
    std::array<char, 4096> event{};
    REQUIRE(read(watch, event.data(), event.size()) > 0);
    kill(child, SIGINT);
    const int status = status_of(child);
    REQUIRE(WIFEXITED(status));
    const int code = WEXITSTATUS(status);
    CHECK((code == 130 || code == 0));
    CHECK(scratch.names() == std::vector<std::string>{"answer"});
    CHECK(file_text(scratch.file("answer")) == whole);
    std::filesystem::remove(scratch.file("answer"));
  }
  close(watch);
}

TEST_CASE("who starts memest with Ctrl-C ignored is not interrupted") {
  const Ran ran =
      run_shell("sh -c 'trap \"\" INT; kill -INT $$; exec " MEMEST_BINARY " models' | wc -l");
  CHECK(ran.code == 0);
  CHECK(std::stoi(ran.out) > 100);
}

}  // namespace
}  // namespace memest
