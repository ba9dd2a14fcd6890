#include "memest/report/import_report.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "report/pages/json.hpp"

namespace memest {
namespace {

std::string file_named(const ImportedKey& key) {
  return key.span.source == nullptr ? std::string() : key.span.source->name;
}

std::string joined_keys(const ImportedKey& key) {
  std::string text;
  for (const std::string& own : key.becomes) text += (text.empty() ? "" : ", ") + own;
  return text;
}

Table key_table(const ImportedJob& job) {
  Table table{{{"file"}, {"line", Align::right}, {"key"}, {"fate"}, {"becomes"}, {"why"}}, {}};
  for (const ImportedKey& key : job.keys) {
    table.rows.push_back({{file_named(key), std::to_string(key.span.line), key.key,
                           std::string(name_of(key.fate)), joined_keys(key), key.why},
                          "",
                          Tone::plain});
  }
  return table;
}

Json key_answer(const ImportedKey& key) {
  return {{"file", file_named(key)}, {"line", key.span.line},
          {"key", key.key},          {"fate", std::string(name_of(key.fate))},
          {"becomes", key.becomes},  {"why", key.why}};
}

std::vector<std::string> written_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

Report report_import(const ImportedJob& job) {
  Report report;
  report.records = key_table(job);
  const std::vector<std::string> lines = written_lines(job.spec);
  report.page.parts = {Figure{[lines](std::size_t) { return lines; }}, report.records};
  Json answer = new_answer();
  answer["spec"] = job.spec;
  Json& counts = answer["counts"] = Json::object();
  for (std::size_t i = 0; i < kKeyFates; ++i) {
    const auto fate = static_cast<KeyFate>(i);
    counts[std::string(name_of(fate))] = std::ranges::count(job.keys, fate, &ImportedKey::fate);
  }
  answer["keys"] = Json::array();
  for (const ImportedKey& key : job.keys) answer["keys"].push_back(key_answer(key));
  report.json = text_of(answer);
  return report;
}

}  // namespace memest
