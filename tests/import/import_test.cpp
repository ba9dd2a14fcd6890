// Public files of other programs, and what each becomes: manifest.yaml has a row a job. A row whose
// `keys` or `spec` differ prints the row that would hold.
#include "memest/reader/import.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>
#include <string>
#include <variant>

#include "memest/plan/estimate.hpp"
#include "memest/reader/read_job.hpp"
#include "reader/request/read_spec.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, kKeyFates> kFates = {"mapped", "no_effect", "not_followed",
                                                            "unknown"};

std::string flow(const Value& value) {
  if (value.kind == ValueKind::null) return "null";
  if (value.kind == ValueKind::scalar) return value.text;
  std::string text;
  for (const Value& item : value.items) text += (text.empty() ? "" : ", ") + flow(item);
  for (const Member& member : value.members) {
    text += (text.empty() ? "" : ", ") + member.key + ": " + flow(member.value);
  }
  return value.kind == ValueKind::mapping ? "{" + text + "}" : "[" + text + "]";
}

std::string counts_of(const std::vector<ImportedKey>& keys) {
  std::string text;
  for (std::size_t i = 0; i < kKeyFates; ++i) {
    const auto count = std::ranges::count(keys, static_cast<KeyFate>(i), &ImportedKey::fate);
    text += (text.empty() ? "" : ", ") + std::string(kFates[i]) + ": " + std::to_string(count);
  }
  return "{" + text + "}";
}

std::string first_error(const Diagnostics& diagnostics) {
  const auto error = std::ranges::find(diagnostics, Severity::error, &Diagnostic::severity);
  return error == diagnostics.end() ? "" : error->message;
}

std::string member(const Value& row, std::string_view key) {
  return as_text(row.find(key)).value_or("");
}

Value manifest() {
  const Checked<SourcePointer> source = read_source("manifest.yaml");
  REQUIRE(source.ok());
  const Checked<Value> rows = parse_yaml(source.value());
  REQUIRE(rows.ok());
  REQUIRE(rows.value().kind == ValueKind::sequence);
  return rows.value();
}

ReadRequest request_of(const Value& row) {
  ReadRequest request;
  if (const Value* preset = row.find("preset")) request.files.push_back(preset->text);
  for (const Value& file : row.find("files")->items) request.files.push_back("files/" + file.text);
  request.gpus = as_count(row.find("gpus"));
  if (const Value* set = row.find("set")) {
    for (const Value& one : set->items) request.overrides.push_back({"--set", one.text});
  }
  return request;
}

void check_import(const Value& row) {
  ReadRequest request = request_of(row);
  request.gpus.reset();
  request.overrides.clear();
  const Checked<ImportedJob> job = import_job(request);
  if (const Value* refused = row.find("refused")) {
    CHECK_FALSE(job.ok());
    CHECK(first_error(job.diagnostics()) == refused->text);
    return;
  }
  INFO(first_error(job.diagnostics()));
  REQUIRE(job.ok());
  const Checked<Value> printed =
      parse_yaml(std::make_shared<const SourceText>(SourceText{"import.yaml", job.value().spec}));
  REQUIRE(printed.ok());
  CHECK(counts_of(job.value().keys) == flow(*row.find("keys")));
  CHECK(flow(printed.value()) == flow(*row.find("spec")));
}

void check_estimate(const Value& row) {
  const Checked<Job> job = read_job(request_of(row));
  if (row.find("no_job") != nullptr) {
    CHECK(first_error(job.diagnostics()) == member(row, "no_job"));
    return;
  }
  INFO(first_error(job.diagnostics()));
  REQUIRE(job.ok());
  const JobEstimate estimate = estimate_job(job.value());
  const auto* unavailable = std::get_if<Unavailable>(&estimate.memory);
  CHECK((unavailable == nullptr ? "" : unavailable->sentence) == member(row, "not_known"));
  if (const Value* peak = row.find("allocated_peak_bytes")) {
    const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
    REQUIRE(memory != nullptr);
    const auto measured = static_cast<double>(*as_count(peak));
    const auto allocated = static_cast<double>(memory->allocated().value());
    INFO("off by " << 100 * (allocated / measured - 1) << " %");
    CHECK(std::abs(allocated / measured - 1) < number_of(member(row, "within")).value_or(0.002));
  }
}

TEST_CASE("every public file becomes the spec that the manifest has, and is answered") {
  fs::current_path(MEMEST_IMPORTS);
  const Value rows = manifest();
  for (const Value& row : rows.items) {
    INFO(flow(*row.find("files")));
    check_import(row);
    if (row.find("refused") == nullptr) check_estimate(row);
  }
}

TEST_CASE("every file has a row, and every row says where its files are from") {
  fs::current_path(MEMEST_IMPORTS);
  const Value rows = manifest();
  std::vector<std::string> named;
  for (const Value& row : rows.items) {
    INFO(flow(*row.find("files")));
    CHECK(!member(row, "source").empty());
    CHECK(!member(row, "licence").empty());
    for (const Value& file : row.find("files")->items) named.push_back("files/" + file.text);
  }
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator("files")) {
    if (!entry.is_regular_file()) continue;
    INFO(entry.path().string());
    CHECK(std::ranges::find(named, entry.path().string()) != named.end());
  }
}

TEST_CASE("what an import prints reads back to the tree of its files") {
  fs::current_path(MEMEST_IMPORTS);
  for (const Value& row : manifest().items) {
    if (row.find("refused") != nullptr || row.find("no_job") != nullptr) continue;
    INFO(flow(*row.find("files")));
    ReadRequest request = request_of(row);
    request.gpus.reset();
    request.overrides.clear();
    const Checked<ImportedJob> imported = import_job(request);
    REQUIRE(imported.ok());
    const Checked<Value> printed =
        read_tree(std::make_shared<const SourceText>(SourceText{"a.yaml", imported.value().spec}));
    const Checked<Value> direct = read_tree(request);
    REQUIRE(printed.ok());
    REQUIRE(direct.ok());
    CHECK(printed.value().members.size() == direct.value().members.size());
    for (const Member& section : direct.value().members) {
      INFO(section.key);
      REQUIRE(printed.value().find(section.key) != nullptr);
      CHECK(flow(*printed.value().find(section.key)) == flow(section.value));
    }
  }
}

}  // namespace
}  // namespace memest
