// The words of other programs against the keys and names that their hints send people to.
#include "reader/keys/foreign.hpp"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <utility>

#include "memest/reader/read_job.hpp"
#include "reader/keys/check.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/hub_name.hpp"

namespace memest {
namespace {

using Names = std::set<std::string, std::less<>>;

void collect(std::span<const Key> keys, Names& names, int depth = 0) {
  constexpr int kDeepest = 6;  // blocks of layers hold blocks
  if (depth > kDeepest) return;
  for (const Key& key : keys) {
    names.emplace(key.name);
    for (const KeyShape& shape : key.shapes) {
      for (const Word& word : shape.words) names.emplace(word.text);
      if (shape.form == Form::catalog) {
        for (const std::string& name : catalog_names(shape.folder)) names.insert(name);
      }
      collect(shape.keys, names, depth + 1);
      if (shape.item == nullptr) continue;
      for (const KeyShape& item : *shape.item) collect(item.keys, names, depth + 1);
    }
  }
}

Names known_names() {
  Names names;
  collect(spec_keys(), names);
  return names;
}

/// The names in single quotes of a hint.
Names quoted_in(std::string_view hint) {
  Names names;
  for (std::size_t begin = 0; (begin = hint.find('\'', begin)) != std::string_view::npos;) {
    const std::size_t end = hint.find('\'', begin + 1);
    REQUIRE(end != std::string_view::npos);
    names.emplace(hint.substr(begin + 1, end - begin - 1));
    begin = end + 1;
  }
  return names;
}

TEST_CASE("every name that the hint of a foreign word quotes is one of a spec's") {
  Names known = known_names();
  known.insert({"hardware.count", "model_type"});
  for (const ForeignWord& row : foreign_words()) {
    INFO(row.word << ": " << row.hint);
    for (const std::string& name : quoted_in(row.hint)) {
      INFO(name);
      CHECK(known.contains(name));
    }
  }
}

TEST_CASE("a foreign word stands once, folded, and is reached") {
  std::set<std::pair<std::string, std::string>> seen;
  const Names known = known_names();
  for (const ForeignWord& row : foreign_words()) {
    INFO(row.word);
    CHECK(seen.emplace(row.word, row.of).second);
    const std::string_view hint =
        row.of.empty() ? hint_of_foreign_key(row.word) : hint_of_foreign_value(row.of, row.word);
    CHECK(hint == row.hint);
    if (row.of.empty()) {
      CHECK(hint_of_section(row.word).empty());
    } else {
      CHECK(known.contains(row.of));
    }
  }
}

TEST_CASE("capitals and hyphens do not hide a foreign word") {
  CHECK(hint_of_foreign_value("optimizer", "Torch.Optim.AdamW") == "did you mean 'adamw'?");
  CHECK(hint_of_foreign_value("name", "adamw-torch") == "did you mean 'adamw'?");
  CHECK(hint_of_foreign_value("precision", "BFloat16").substr(0, 4) == "bf16");
  CHECK(hint_of_foreign_value("attention", "adamw_torch").empty());
}

TEST_CASE("what people write is answered by every section, as the key or as its hint") {
  struct Case {
    const char* training;
    const char* hint;
  };
  for (const auto& [training, hint] :
       {Case{"optimizer: AdamW", "did you mean 'adamw'?"},
        Case{"optimizer: {name: ADAMW}", "did you mean 'adamw'?"},
        Case{"seq_len: 8K", "write 8192, or 8000"},
        Case{"seq_len: 1M", "write 1048576, or 1000000"},
        Case{"recompute: true", "write recompute: full"},
        Case{"zero: 2", "it belongs in 'parallelism'"},
        Case{"tensor: 2", "it belongs in 'parallelism'"},
        Case{"hidden_size: 64", "it belongs in 'model'"},
        Case{"memory: 80 GiB", "it belongs in 'hardware' or 'budget'"},
        Case{"adapter: lora", "write {lora: {rank: ..., targets: ...}}"}}) {
    INFO(training);
    const std::string text =
        std::string("model: gpt2\ntraining: {") +
        (std::string_view(training).starts_with("seq_len") ? "" : "seq_len: 128, ") + training +
        "}\n";
    const Checked<Job> job =
        read_job(std::make_shared<const SourceText>(SourceText{"a.yaml", text}));
    REQUIRE_FALSE(job.ok());
    REQUIRE(job.diagnostics().size() == 1);
    CHECK(job.diagnostics().front().hint == hint);
  }
}

TEST_CASE("a name of the Hub is told from a path") {
  CHECK(is_hub_name("meta-llama/Llama-3.1-8B"));
  CHECK_FALSE(is_hub_name("llama-3.1-8b"));
  CHECK_FALSE(is_hub_name("./Llama-3.1-8B"));
  CHECK_FALSE(is_hub_name("/models/llama"));
  CHECK_FALSE(is_hub_name("org/model/config"));
  CHECK_FALSE(is_hub_name("org/model.yaml"));
  CHECK_FALSE(is_hub_name("org/"));
  CHECK(hint_of_hub_name("meta-llama/Meta-Llama-3-8B-Instruct").find("'llama-3-8b'") !=
        std::string::npos);
  CHECK(hint_of_hub_name("openai-community/gpt2-xl").find("'gpt2-xl'") != std::string::npos);
  CHECK(hint_of_hub_name("org/notgpt2").find("preset") == std::string::npos);
}

}  // namespace
}  // namespace memest
