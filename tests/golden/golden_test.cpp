// Command lines and their exact output. NAME.cmd is a line for the shell, NAME.out what it must
// print: standard output, standard error, and the exit code. After a change that means to change
// them, write them anew and read the difference:
//
//   MEMEST_UPDATE_GOLDEN=1 ctest --preset dev -L golden && git diff tests/golden
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../cli/shell.hpp"

namespace memest {
namespace {

std::vector<std::filesystem::path> commands() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MEMEST_SOURCE_DIR "/tests/golden")) {
    if (entry.path().extension() == ".cmd") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST_CASE("every command line prints exactly what it printed") {
  REQUIRE_FALSE(commands().empty());
  for (std::filesystem::path path : commands()) {
    const Ran ran = run_shell(file_text(path.string()));
    const std::string printed = ran.out + ran.err + "exit code " + std::to_string(ran.code) + "\n";
    const std::string expected = path.replace_extension(".out").string();
    if (std::getenv("MEMEST_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(expected, std::ios::binary) << printed;
      continue;
    }
    INFO(expected);
    CHECK(printed == file_text(expected));
  }
}

}  // namespace
}  // namespace memest
