// The order of the tensors of what read_hf_config reads, against that in which Module.to() places
// what transformers 5.17 builds (tests/truth/README.md).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "memest/graph/parameters.hpp"
#include "memest/reader/hf_config.hpp"
#include "memest/spec/inventory.hpp"
#include "reader/hf/hf_config.hpp"
#include "reader/text/value.hpp"
#include "truth_rows.hpp"

namespace memest {
namespace {

const std::string kBuffer = " buffer";

std::map<std::string, Value> rows_of(const std::string& name) {
  std::map<std::string, Value> rows;
  std::istringstream file(test::truth_text(name));
  for (std::string line; std::getline(file, line);) {
    Checked<Value> row = parse_json(std::make_shared<const SourceText>(SourceText{name, line}));
    REQUIRE(row.ok());
    const std::string key = row.value().find("name")->text;
    rows.emplace(key, std::move(row).value());
  }
  return rows;
}

/// The class's own names of rotary tables are of no use to anyone: a buffer is its size.
std::string without_buffer_name(const std::string& text) {
  return text.ends_with(kBuffer) ? text.substr(text.find(' ') + 1) : text;
}

std::vector<std::string> truth_in(const Value& row) {
  std::vector<std::string> tensors;
  for (const Value& run : row.find("runs")->items) {
    for (long i = 0; i < std::stol(run.items[0].text); ++i) {
      for (const Value& tensor : run.items[1].items) {
        tensors.push_back(without_buffer_name(tensor.text));
      }
    }
  }
  return tensors;
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return elements;
}

std::vector<std::string> placement_of(const Inventory& inventory) {
  std::vector<std::string> tensors;
  for (const PlacedTensor& placed : tensors_in_order(inventory)) {
    if (placed.buffer) {
      tensors.push_back(std::to_string(elements_of(inventory.buffers[placed.row].shape)) + kBuffer);
    } else {
      const ParameterTensor& row = inventory.parameters[placed.row];
      tensors.push_back(row.name + " " + std::to_string(elements_of(row.shape)));
    }
  }
  return tensors;
}

/// The first place where they part, for people; empty if they are equal.
std::string difference(const std::vector<std::string>& ours,
                       const std::vector<std::string>& truth) {
  const auto [left, right] = std::mismatch(ours.begin(), ours.end(), truth.begin(), truth.end());
  if (left == ours.end() && right == truth.end()) return "";
  return std::to_string(left - ours.begin()) + ": " + (left == ours.end() ? "nothing" : *left) +
         " for " + (right == truth.end() ? "nothing" : *right);
}

}  // namespace

TEST_CASE("tensors stand in the order in which PyTorch places them") {
  const std::map<std::string, Value> configs = rows_of("parameters.jsonl.gz");
  const std::map<std::string, Value> placements = rows_of("placement.jsonl.gz");
  for (const auto& [name, row] : placements) {
    CAPTURE(name);
    const Checked<ModelSpec> model = read_hf_config(*configs.at(name).find("config"), name);
    REQUIRE(model.ok());
    const Inventory inventory = parameters_of(model.value());
    CHECK(difference(placement_of(inventory), truth_in(row)) == "");
    // Every copy of every row has its place.
    std::map<std::pair<bool, std::size_t>, std::int64_t> copies;
    for (const PlacedTensor& placed : tensors_in_order(inventory)) {
      CHECK(placed.copy == copies[{placed.buffer, placed.row}]++);
    }
    for (const auto& [place, count] : copies) {
      const auto [buffer, index] = place;
      CHECK(count == (buffer ? inventory.buffers[index].count : inventory.parameters[index].count));
    }
  }
  CHECK(placements.size() > 150);
}

}  // namespace memest
