#include "records.hpp"

#include <fstream>
#include <stdexcept>

namespace memest {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::size_t skip_space(std::string_view text, std::size_t at) {
  const std::size_t next = text.find_first_not_of(kSpace, at);
  return next == std::string_view::npos ? text.size() : next;
}

/// One past the string that starts at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  throw std::runtime_error("a record has an open string");
}

/// One past the value that starts at `at`.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  int depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '"') {
      i = end_of_string(text, i) - 1;
    } else if (letter == '{' || letter == '[') {
      ++depth;
    } else if (letter == '}' || letter == ']') {
      if (depth == 0) return i;
      --depth;
    } else if (letter == ',' && depth == 0) {
      return i;
    }
  }
  return text.size();
}

std::int64_t whole(std::string_view text) { return std::stoll(std::string(text)); }

}  // namespace

std::string_view json_member(std::string_view text, std::string_view name) {
  std::size_t at = skip_space(text, 0) + 1;
  while (at < text.size()) {
    at = skip_space(text, at);
    if (text[at] != '"') break;
    const std::size_t key_end = end_of_string(text, at);
    const std::string_view key = text.substr(at + 1, key_end - at - 2);
    const std::size_t value = skip_space(text, text.find(':', key_end) + 1);
    const std::size_t end = end_of_value(text, value);
    if (key == name) return text.substr(value, end - value);
    at = end + 1;
  }
  return {};
}

std::optional<std::int64_t> Record::number(std::string_view name) const {
  const std::string_view text = json_member(measured, name);
  if (text.empty() || text == "null") return std::nullopt;
  return whole(text);
}

std::optional<std::vector<std::int64_t>> Record::numbers(std::string_view name) const {
  const std::string_view text = json_member(measured, name);
  if (text.empty() || text == "null") return std::nullopt;
  std::vector<std::int64_t> result;
  if (text.front() != '[') return std::vector{whole(text)};
  std::size_t at = skip_space(text, 1);
  while (at < text.size() && text[at] != ']') {
    const std::size_t end = end_of_value(text, at);
    result.push_back(whole(text.substr(at, end - at)));
    at = skip_space(text, end + 1);
  }
  return result;
}

std::vector<Record> read_records(const std::string& file) {
  std::ifstream stream(std::string(MEMEST_TRUTH_FOLDER) + "/" + file);
  if (!stream) throw std::runtime_error("cannot open the records " + file);
  std::vector<Record> result;
  std::string line;
  while (std::getline(stream, line)) {
    const std::string_view id = json_member(line, "id");
    result.push_back({.id = std::string(id.substr(1, id.size() - 2)),
                      .spec = std::string(json_member(line, "spec")),
                      .measured = std::string(json_member(line, "measured"))});
  }
  return result;
}

}  // namespace memest
