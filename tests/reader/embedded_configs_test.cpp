#include "memest/reader/embedded_configs.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace memest {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST_CASE("every file of configs/ is embedded, byte for byte, but the samples behind profiles") {
  const std::filesystem::path configs = MEMEST_CONFIGS;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(configs)) {
    if (!entry.is_regular_file() || entry.path().extension() == ".csv") continue;
    ++files;
    const std::string path = entry.path().lexically_relative(configs).generic_string();
    INFO(path);
    const auto embedded = std::ranges::find(embedded_configs(), path, &EmbeddedFile::path);
    REQUIRE(embedded != embedded_configs().end());
    CHECK(embedded->text == read(entry.path()));
  }
  CHECK(embedded_configs().size() == files);
}

TEST_CASE("embedded files are sorted by path") {
  CHECK(std::ranges::is_sorted(embedded_configs(), {}, &EmbeddedFile::path));
}

}  // namespace
}  // namespace memest
