// Parameters of what read_hf_config reads, against what transformers 5.17 builds
// (tests/truth/README.md).
#include "memest/graph/parameters.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "memest/reader/hf_config.hpp"
#include "reader/hf/hf_config.hpp"
#include "reader/text/value.hpp"
#include "truth_rows.hpp"

namespace memest {
namespace {

const std::string kTruth = MEMEST_TRUTH;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

Checked<Value> tree_of(const std::string& name, const std::string& text) {
  return parse_json(std::make_shared<const SourceText>(SourceText{name, text}));
}

std::string messages_of(const Diagnostics& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += diagnostic.message + "; ";
  return text;
}

std::int64_t number_in(const Value& row, const char* key) {
  return std::stoll(row.find(key)->text);
}

/// How many parameters of each name and shape; of each shape alone unless `named`.
std::map<std::string, std::int64_t> shapes_of(const ModelSpec& model, bool named) {
  std::map<std::string, std::int64_t> shapes;
  for (const ParameterTensor& tensor : parameters_of(model).parameters) {
    std::string shape;
    for (const std::int64_t size : tensor.shape) {
      shape += (shape.empty() ? "" : "x") + std::to_string(size);
    }
    shapes[named ? tensor.name + " " + shape : shape] += tensor.count;
  }
  return shapes;
}

std::map<std::string, std::int64_t> shapes_in(const Value& row) {
  std::map<std::string, std::int64_t> shapes;
  for (const Member& shape : row.find("shapes")->members) {
    shapes[shape.key] = std::stoll(shape.value.text);
  }
  return shapes;
}

/// What differs, a line each; empty if nothing does.
std::string difference(const std::map<std::string, std::int64_t>& ours,
                       const std::map<std::string, std::int64_t>& truth) {
  std::string text;
  for (const auto& [shape, count] : truth) {
    const auto found = ours.find(shape);
    const std::int64_t have = found == ours.end() ? 0 : found->second;
    if (have != count) {
      text += shape + ": " + std::to_string(have) + " of " + std::to_string(count) + "\n";
    }
  }
  for (const auto& [shape, count] : ours) {
    if (!truth.contains(shape)) text += shape + ": " + std::to_string(count) + " of 0\n";
  }
  return text;
}

}  // namespace

TEST_CASE("parameters of public models are those of transformers") {
  std::istringstream rows(text_of_file(kTruth + "/exact_params.csv"));
  std::string line;
  std::getline(rows, line);
  REQUIRE(line == "name,model_type,class,total,trainable,embedding,buffers_bytes_fp32,published");
  int count = 0;
  while (std::getline(rows, line)) {
    std::istringstream cells(line);
    std::string name, cell;
    std::getline(cells, name, ',');
    std::getline(cells, cell, ',');
    std::getline(cells, cell, ',');
    std::int64_t numbers[4] = {};
    for (std::int64_t& number : numbers) {
      std::getline(cells, cell, ',');
      number = cell.empty() ? 0 : std::stoll(cell);
    }
    CAPTURE(name);
    const std::string path = kTruth + "/configs/" + name + "/config.json";
    const Checked<Value> tree = tree_of(path, text_of_file(path));
    REQUIRE(tree.ok());
    const Checked<ModelSpec> model = read_hf_config(tree.value(), name);
    CAPTURE(messages_of(model.diagnostics()));
    REQUIRE(model.ok());
    const ParameterCounts counts = count_parameters(model.value());
    CHECK(counts.total == numbers[0]);
    CHECK(counts.trainable == numbers[1]);
    CHECK(counts.embedding == numbers[2]);
    CHECK(counts.buffers.value() == numbers[3]);
    ++count;
  }
  CHECK(count == 44);
}

TEST_CASE("parameters of varied configs are those of transformers, tensor by tensor") {
  std::istringstream rows(test::truth_text("parameters.jsonl.gz"));
  int count = 0;
  for (std::string line; std::getline(rows, line); ++count) {
    const Checked<Value> row = tree_of("parameters.jsonl", line);
    REQUIRE(row.ok());
    CAPTURE(row.value().find("name")->text);
    const Value& config = *row.value().find("config");
    const Checked<ModelSpec> model = read_hf_config(config, row.value().find("name")->text);
    CAPTURE(messages_of(model.diagnostics()));
    CHECK(model.ok());
    if (!model.ok()) continue;
    const bool named = model.value().family == Family::decoder &&
                       std::holds_alternative<DecoderSpec>(model.value().architecture) &&
                       config.find("architectures") == nullptr;
    CHECK(difference(shapes_of(model.value(), named), shapes_in(row.value())) == "");
    const ParameterCounts counts = count_parameters(model.value());
    CHECK(counts.total == number_in(row.value(), "total"));
    CHECK(counts.trainable == number_in(row.value(), "trainable"));
    CHECK(counts.embedding == number_in(row.value(), "embedding"));
    CHECK(counts.buffers.value() == number_in(row.value(), "buffer_bytes"));
    CHECK(counts.tensors == number_in(row.value(), "tensors"));
  }
  CHECK(count >= 150);
}

}  // namespace memest
