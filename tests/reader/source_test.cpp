#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "memest/diag/environment.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

namespace fs = std::filesystem;

/// A folder that is gone with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(fs::temp_directory_path() / "memest_source_test") {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = path_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string first_error(const ReadRequest& request) {
  const Checked<Job> job = read_job(request);
  return job.ok() ? "ok" : job.diagnostics().front().message;
}

constexpr const char* kModel = "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n";

}  // namespace

TEST_CASE("files of any size and kind end in a sentence") {
  const TemporaryFolder folder;
  const std::string large = folder.write("large.yaml", "model: ");
  fs::resize_file(large, 100'000'000);  // sparse: it takes no room
  CHECK(first_error({.files = {large}}) == "the file is larger than 4 MiB");
  CHECK(first_error({.files = {folder.path()}}) == "this is a directory");
  CHECK(first_error({.files = {folder.write("empty.yaml", "")}}) == "the file is empty");
  CHECK_THROWS_AS(read_job({.files = {folder.path() + "/nowhere.yaml"}}), EnvironmentError);
  CHECK(first_error({.files = {"no-such-preset"}}) == "neither a file nor a preset");
}

TEST_CASE("a byte-order mark is no part of the text") {
  const TemporaryFolder folder;
  CHECK(first_error({.files = {folder.write("mark.yaml", std::string("\xEF\xBB\xBF") + kModel)}}) ==
        "ok");
}

TEST_CASE("files merge from left to right, and overrides come last") {
  const TemporaryFolder folder;
  const std::string model = folder.write(
      "model.yaml", std::string(kModel) + "training: {seq_len: 128, micro_batch: 2}\n");
  const std::string cluster =
      folder.write("cluster.json", R"({"training": {"micro_batch": 4}, "hardware": {"count": 8}})");
  const Checked<Job> merged = read_job({.files = {model, cluster}});
  REQUIRE(merged.ok());
  CHECK(merged.value().name == "model");
  CHECK(merged.value().training->seq_len == 128);
  CHECK(merged.value().training->micro_batch == 4);
  CHECK(merged.value().parallelism.data == 8);

  const Checked<Job> overridden =
      read_job({.files = {model, cluster},
                .overrides = {{"--set", "training.micro_batch=3"},
                              {"--set", "training.recompute={every: 2}"},
                              {"--gpu", "hardware.gpu=a100"},
                              {"--set", "hardware.memory=40 GiB"}}});
  REQUIRE(overridden.ok());
  CHECK(overridden.value().training->micro_batch == 3);
  CHECK(text_of(overridden.value().training->recompute) == "every 2");
  CHECK(overridden.value().hardware.gpu.slug.starts_with("a100"));
  CHECK(overridden.value().hardware.memory == Bytes(40 * kGiB));
}

TEST_CASE("a diagnostic of a merged file points into the file that wrote the value") {
  const TemporaryFolder folder;
  const std::string model = folder.write("model.yaml", kModel);
  const std::string cluster = folder.write("cluster.yaml", "\nhardware: {count: eight}\n");
  const Checked<Job> job = read_job({.files = {model, cluster}});
  REQUIRE_FALSE(job.ok());
  const SourceSpan& span = job.diagnostics().front().span;
  CHECK(span.source->name == cluster);
  CHECK(span.line == 2);
  CHECK(span.column == 19);
}

TEST_CASE("the path of a Hugging Face config is relative to the spec") {
  const TemporaryFolder folder;
  folder.write("configs/config.json",
               R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
                   "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100})");
  for (const char* path : {"configs/config.json", "configs"}) {
    const std::string spec = folder.write("tiny.yaml", "model: {hf: " + std::string(path) + "}\n");
    const Checked<Job> job = read_job({.files = {spec}});
    REQUIRE(job.ok());
    CHECK(job.value().model.name == "tiny");
    CHECK(job.value().model.model_type == "llama");
  }
}

TEST_CASE("an override of any length and depth ends in a sentence") {
  const TemporaryFolder folder;
  const std::string model = folder.write("model.yaml", kModel);
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  CHECK(first_error({.files = {model}, .overrides = {{"--set", deep + "=1"}}}) ==
        "nested more than 64 levels deep");
  CHECK(first_error({.files = {model},
                     .overrides = {{"--set", "model.layers=" + std::string(5'000'000, '1')}}}) ==
        "an override is KEY=VALUE");
}

}  // namespace memest
