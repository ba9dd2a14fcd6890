#include "memest/reader/embedded_configs.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "reader/text/embedded_trees.hpp"
#include "reader/text/source.hpp"

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
    if (!entry.is_regular_file() || entry.path().string().ends_with(".samples.csv.gz")) continue;
    ++files;
    const std::string path = entry.path().lexically_relative(configs).generic_string();
    INFO(path);
    const auto embedded = std::ranges::find(embedded_configs(), path, &EmbeddedFile::path);
    REQUIRE(embedded != embedded_configs().end());
    CHECK(embedded->text == read(entry.path()));
  }
  CHECK(embedded_configs().size() == files);
}

std::string text_of(const SourceSpan& span) {
  return ' ' + std::to_string(span.line) + ':' + std::to_string(span.column) + '+' +
         std::to_string(span.length);
}

/// Everything that a tree says, with every place.
std::string text_of(const Value& value) {
  std::string text = std::to_string(static_cast<int>(value.kind)) + (value.quoted ? "'" : "") +
                     value.text + text_of(value.span) + '\n';
  for (const Value& item : value.items) text += text_of(item);
  for (const Member& member : value.members) {
    text += member.key + text_of(member.key_span) + text_of(member.value);
  }
  return text;
}

TEST_CASE("the tree of every embedded file is what the parser makes of its text") {
  for (const EmbeddedFile& file : embedded_configs()) {
    INFO(file.path);
    const auto source = std::make_shared<const SourceText>(
        SourceText{std::string(file.path), std::string(file.text)});
    const Checked<Value> parsed = parse_source(source);
    REQUIRE(parsed.ok());
    CHECK(text_of(embedded_value(file, "name")) == text_of(parsed.value()));
  }
}

TEST_CASE("embedded files are sorted by path") {
  CHECK(std::ranges::is_sorted(embedded_configs(), {}, &EmbeddedFile::path));
}

}  // namespace
}  // namespace memest
