#include "memest/reader/spec_files.hpp"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "memest/reader/read_job.hpp"
#include "memest/reader/written_spec.hpp"

namespace memest {
namespace {

namespace fs = std::filesystem;

/// A folder with these files in it, empty ones, that is the working directory until the test ends.
struct MadeFolder {
  explicit MadeFolder(const std::vector<std::string>& files)
      : path(fs::temp_directory_path() / ("memest-found-" + std::to_string(getpid()))),
        before(fs::current_path()) {
    fs::create_directories(path);
    fs::current_path(path);
    for (const std::string& file : files) write(file, "");
  }
  MadeFolder(const MadeFolder&) = delete;
  MadeFolder& operator=(const MadeFolder&) = delete;
  ~MadeFolder() {
    fs::current_path(before);
    fs::remove_all(path);
  }
  static void write(const fs::path& file, const std::string& text) {
    if (file.has_parent_path()) fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }

  fs::path path;
  fs::path before;
};

/// "a.yaml b.yaml!": what is named by a word itself with a mark.
std::string found(const std::vector<std::string>& words) {
  const Checked<std::vector<FoundFile>> files = find_spec_files(words);
  if (!files.ok()) return files.diagnostics().front().message;
  std::string text;
  for (const FoundFile& file : files.value()) {
    text += (text.empty() ? "" : " ") + file.path + (file.named ? "!" : "");
  }
  return text;
}

/// "key=value@line:column", a line each.
std::string written(const std::string& text) {
  const MadeFolder folder({});
  MadeFolder::write("spec.yaml", text);
  const WrittenSpec spec = read_written_spec("spec.yaml");
  std::string result = spec.is_spec ? "spec\n" : "";
  for (const SpecLeaf& key : spec.keys) {
    result += key.key + "=" + key.value + "@" + std::to_string(key.span.line) + ":" +
              std::to_string(key.span.column) + "\n";
  }
  return result;
}

}  // namespace

TEST_CASE("a pattern matches folder by folder") {
  CHECK(matches("*.yaml", "a.yaml"));
  CHECK_FALSE(matches("*.yaml", "x/a.yaml"));
  CHECK_FALSE(matches("*.yaml", ".a.yaml"));
  CHECK(matches("**/*.yaml", "a.yaml"));
  CHECK(matches("**/*.yaml", "x/y/a.yaml"));
  CHECK_FALSE(matches("**/*.yaml", "x/.y/a.yaml"));
  CHECK(matches("x/**/a.yaml", "x/a.yaml"));
  CHECK(matches("x/**/a.yaml", "x/y/z/a.yaml"));
  CHECK_FALSE(matches("x/**/a.yaml", "y/a.yaml"));
  CHECK(matches("x/?/[ab].yaml", "x/y/b.yaml"));
  CHECK_FALSE(matches("x/?/[ab].yaml", "x/yy/b.yaml"));
  CHECK(matches("./x/*", "x/a"));
  CHECK_FALSE(matches("**", "x/y"));
}

TEST_CASE("words stand for files, sorted and each once") {
  const MadeFolder folder({"b.yaml", "a.yml", "c.json", "notes.md", ".hidden/d.yaml", "x/e.yaml",
                           "x/y/f.yaml", "x/.g.yaml", "[1].yaml"});
  CHECK(found({"."}) == "[1].yaml a.yml b.yaml c.json x/e.yaml x/y/f.yaml");
  CHECK(found({"x", "b.yaml"}) == "b.yaml! x/e.yaml x/y/f.yaml");
  CHECK(found({"b.yaml", ".", "./b.yaml"}) == "[1].yaml a.yml b.yaml! c.json x/e.yaml x/y/f.yaml");
  CHECK(found({"*.yaml"}) == "[1].yaml b.yaml");
  CHECK(found({"**/*.yaml"}) == "[1].yaml b.yaml x/e.yaml x/y/f.yaml");
  CHECK(found({"x/**/*.yaml"}) == "x/e.yaml x/y/f.yaml");
  CHECK(found({".hidden"}) == ".hidden/d.yaml");
  CHECK(found({"[1].yaml"}) == "[1].yaml!");  // a file of that name is no pattern
  CHECK(found({"z/*.yaml"}) == "no file matches this pattern");
  CHECK(found({"-", "gpt2", "missing.yaml"}) == "-! gpt2! missing.yaml!");
}

TEST_CASE("a document is a spec by its keys") {
  const MadeFolder folder({"empty.yaml"});
  const auto is_spec = [](const std::string& name, const std::string& text) {
    MadeFolder::write(name, text);
    return read_written_spec(name).is_spec;
  };
  CHECK(is_spec("a.yaml", "model: gpt2\ntraining: {seq_len: 8}\n"));
  CHECK(is_spec("a.yaml", "model: gpt2\ninference: {prompt: 8}\n"));
  CHECK(is_spec("a.json", "{\"model\": \"gpt2\", \"training\": {}}"));
  CHECK_FALSE(is_spec("a.yaml", "model: gpt2\n"));
  CHECK_FALSE(is_spec("a.yaml", "training: {}\n"));
  CHECK_FALSE(is_spec("a.yaml", "- model\n- training\n"));
  CHECK_FALSE(is_spec("a.json", "{\"model_type\": \"gpt2\"}"));
  CHECK_FALSE(read_written_spec("empty.yaml").is_spec);
  // A spec that a slip of the keyboard broke is no file to pass over.
  CHECK(is_spec("a.yaml", "model: gpt2\ntraining: {seq_len: 8\n"));
  CHECK(is_spec("a.yaml", "model: gpt2\n\ttraining: 8\ntraining:\n"));
  CHECK_FALSE(is_spec("a.yaml", "{{ template }}: [\n"));
}

TEST_CASE("the keys of a spec are its leaves, each at its place") {
  CHECK(written("model:\n  layers: [{repeat: 2, block: [relu]}, gelu]\ntraining: {seq_len: 8, data:"
                " {}}\nbudget:\n") ==
        "spec\n"
        "model.layers[0].repeat=2@2:13\n"
        "model.layers[0].block[0]=relu@2:32\n"
        "model.layers[1]=gelu@2:40\n"
        "training.seq_len=8@3:12\n"
        "training.data={}@3:24\n"
        "budget=@4:1\n");
}

TEST_CASE("an answer rests on the files that it was made of") {
  const MadeFolder folder({});
  MadeFolder::write("config.json",
                    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 2, "
                    "\"vocab_size\": 100, \"n_positions\": 64}");
  MadeFolder::write("spec.yaml",
                    "model: {hf: config.json}\ntraining: {seq_len: 8, precision: mixed}\n"
                    "hardware: {gpu: l4}\n");
  const auto names = [] {
    const Checked<Job> job = read_job(ReadRequest{{"spec.yaml"}});
    REQUIRE(job.ok());
    return rests_on(job.value(), read_written_spec("spec.yaml").keys);
  };
  const std::vector<RestsOn> before = names();
  std::string text;
  for (const RestsOn& row : before) {
    CHECK(row.digest.size() == 8);
    text += row.name + "\n";
  }
  CHECK(text.starts_with("config config.json\ngpu l4\noptimizer adamw\nprofile l4\n"));
  CHECK(text.ends_with("recipe mixed\n"));
  std::ofstream("config.json", std::ios::app) << "\n";
  const std::vector<RestsOn> after = names();
  CHECK(before.front().digest != after.front().digest);
  CHECK(std::vector(before.begin() + 1, before.end()) ==
        std::vector(after.begin() + 1, after.end()));
}

}  // namespace memest
