// configs/models against the counts of transformers (tests/truth/gallery.csv) and against the full
// configs where there are.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "memest/graph/parameters.hpp"
#include "memest/reader/embedded_configs.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/spec/lowered_images.hpp"
#include "reader/hf/hf_config.hpp"
#include "reader/text/value.hpp"

namespace memest {
namespace {

const std::string kTruth = MEMEST_TRUTH;

std::string messages_of(const Diagnostics& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += diagnostic.message + "; ";
  return text;
}

const EmbeddedFile* find_model(const std::string& name) {
  for (const EmbeddedFile& file : embedded_configs()) {
    if (file.path == "models/" + name + ".yaml") return &file;
  }
  return nullptr;
}

Checked<Job> job_of(const EmbeddedFile& file) {
  return read_job(std::make_shared<const SourceText>(
      SourceText{std::string(file.path), std::string(file.text)}));
}

/// 8030261248 is "8,030,261,248".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, ",");
  return digits;
}

}  // namespace

TEST_CASE("every model of the gallery has the parameters that transformers builds") {
  std::ifstream rows(kTruth + "/gallery.csv");
  std::string line;
  REQUIRE(std::getline(rows, line));
  std::size_t count = 0;
  for (; std::getline(rows, line); ++count) {
    std::istringstream cells(line);
    std::string name, total;
    std::getline(cells, name, ',');
    std::getline(cells, total, ',');
    CAPTURE(name);
    const EmbeddedFile* const file = find_model(name);
    REQUIRE(file != nullptr);
    const Checked<Job> job = job_of(*file);
    CAPTURE(messages_of(job.diagnostics()));
    REQUIRE(job.ok());
    CHECK(count_parameters(job.value().model).total == std::stoll(total));
    CHECK(file->text.find(grouped(std::stoll(total)) + " parameters") != std::string::npos);
    CHECK(job.value().training.has_value());
    CHECK(job.value().given.global_batch);
  }
  std::size_t files = 0;
  for (const EmbeddedFile& file : embedded_configs()) files += file.path.starts_with("models/");
  CHECK(files == count);
}

TEST_CASE("ResNet-50's convolutions lower 21,814,016 elements an image, the first one most") {
  const Checked<Job> job = job_of(*find_model("resnet-50"));
  REQUIRE(job.ok());
  const auto& list = std::get<LayerList>(job.value().model.architecture);
  const std::int64_t first = 7 * 7 * 3 * 112 * 112;
  CHECK(lowered_images(list) == LoweredImages{21'814'016, first});
  // 32 images at once under bf16 autocast.
  CHECK(most_convolution_workspace(job.value()) == Bytes(first * 32 * 2));
}

TEST_CASE("the gallery's few keys say what the full config says") {
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTruth + "/configs")) {
    const std::string name = entry.path().filename();
    CAPTURE(name);
    const EmbeddedFile* const file = find_model(name);
    REQUIRE(file != nullptr);
    std::ifstream stream(entry.path() / "config.json");
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const Checked<Value> tree =
        parse_json(std::make_shared<const SourceText>(SourceText{name, text}));
    REQUIRE(tree.ok());
    const Checked<ModelSpec> full = read_hf_config(tree.value(), name);
    REQUIRE(full.ok());
    const Checked<Job> job = job_of(*file);
    REQUIRE(job.ok());
    const auto* const decoder = std::get_if<DecoderSpec>(&full.value().architecture);
    if (decoder == nullptr) continue;
    CHECK(std::get<DecoderSpec>(job.value().model.architecture) == *decoder);
    ++compared;
  }
  CHECK(compared >= 35);
}

}  // namespace memest
