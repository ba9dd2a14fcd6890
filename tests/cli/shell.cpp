#include "shell.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace memest {

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Ran run_shell(const std::string& command) {
  const std::string errors =
      (std::filesystem::temp_directory_path() / ("memest-test-" + std::to_string(getpid())))
          .string();
  const std::string script = "cd '" MEMEST_SOURCE_DIR "' && memest() { '" MEMEST_BINARY
                             "' \"$@\"; } && export LC_ALL=C.UTF-8 && unset NO_COLOR && { " +
                             command + "\n} 2>'" + errors + "'";
  std::FILE* pipe = popen(script.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ran ran;
  std::array<char, 4096> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    ran.out.append(buffer.data(), size);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.err = file_text(errors);
  std::filesystem::remove(errors);
  return ran;
}

std::vector<std::string> command_names() {
  std::istringstream page(run_shell("memest --help").out);
  std::vector<std::string> names;
  bool listing = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "Commands:") {
      listing = true;
    } else if (line.empty()) {
      listing = false;
    } else if (listing && line.rfind("   ", 0) != 0) {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  REQUIRE_FALSE(names.empty());
  return names;
}

}  // namespace memest
