// The starter spec: a small choice of keys, each with its meaning from the table of all keys.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "memest/diag/expect.hpp"
#include "memest/reader/schema.hpp"
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

struct Line {
  std::string_view section;
  std::string_view key;
  std::string_view value;
};

// Llama 3 8B on one node: https://huggingface.co/meta-llama/Meta-Llama-3-8B, config.json
constexpr std::array kLines = {Line{"model", "layers", "32"},
                               Line{"model", "hidden_size", "4096"},
                               Line{"model", "heads", "32"},
                               Line{"model", "kv_heads", "8"},
                               Line{"model", "ffn_size", "14336"},
                               Line{"model", "vocab_size", "128256"},
                               Line{"model", "activation", "swiglu"},
                               Line{"model", "norm", "rmsnorm"},
                               Line{"model", "position", "rope"},
                               Line{"training", "seq_len", "8192"},
                               Line{"training", "micro_batch", "1"},
                               Line{"training", "global_batch", "512"},
                               Line{"training", "precision", "mixed"},
                               Line{"training", "optimizer", "adamw"},
                               Line{"training", "recompute", "full"},
                               Line{"training", "implementation", "transformers"},
                               Line{"parallelism", "data", "8"},
                               Line{"parallelism", "zero", "2"},
                               Line{"hardware", "gpu", "h100-sxm-80gb"},
                               Line{"hardware", "count", "8"},
                               Line{"budget", "memory", "74 GiB"},
                               Line{"budget", "cost_per_billion_tokens", "250 USD"}};

constexpr std::string_view kStarterHead =
    "# yaml-language-server: $schema=memest.schema.json\n"
    "# `memest schema > memest.schema.json` lets an editor complete and check this file.\n"
    "# `memest estimate FILE` answers for it as it stands, `memest plan FILE` looks for better.\n"
    "# Instead of the keys of `model`: a preset (`model: NAME`, from `memest models`) or a "
    "Hugging\n"
    "# Face config (`model: {hf: config.json}`).\n";

const Key& key_named(std::span<const Key> keys, std::string_view name) {
  const auto key = std::find_if(keys.begin(), keys.end(),
                                [name](const Key& candidate) { return candidate.name == name; });
  expect(key != keys.end(), "a line of the starter spec whose key is not in the table");
  return *key;
}

/// The comment stands behind the key, or above it where the line would not fit the screen.
std::string with_comment(const std::string& text, std::string_view comment) {
  constexpr std::size_t kCommentColumn = 34;
  constexpr std::size_t kColumns = 100;
  const std::size_t padding = std::max(text.size() + 1, kCommentColumn) - text.size();
  const std::string note = "# " + std::string(comment);
  if (text.size() + padding + note.size() > kColumns) return "  " + note + "\n" + text + "\n";
  return text + std::string(padding, ' ') + note + "\n";
}

}  // namespace

std::string starter_spec() {
  std::string spec(kStarterHead);
  std::string_view section;
  std::span<const Key> keys;
  for (const Line& line : kLines) {
    if (line.section != section) {
      section = line.section;
      const Key& key = key_named(spec_keys(), section);
      const auto table =
          std::find_if(key.shapes.begin(), key.shapes.end(),
                       [](const KeyShape& shape) { return shape.form == Form::table; });
      expect(table != key.shapes.end(), "a section of the starter spec that is not a table");
      keys = table->keys;
      spec += "\n" + std::string(section) + ":\n";
    }
    spec += with_comment("  " + std::string(line.key) + ": " + std::string(line.value),
                         key_named(keys, line.key).doc);
  }
  return spec;
}

}  // namespace memest
