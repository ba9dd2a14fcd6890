#include "reader/foreign/dialects.hpp"

#include <algorithm>
#include <array>

#include "memest/reader/import.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/foreign/python.hpp"
#include "reader/foreign/shell.hpp"
#include "reader/foreign/toml.hpp"

namespace memest {
namespace {

/// The first that tells a file stands for it: what has more telling keys comes before.
const Dialect* const kDialects[] = {
    &litgpt_dialect(),          &torchtitan_dialect(), &megatron_dialect(),
    &megatron_bridge_dialect(), &nanogpt_dialect(),    &axolotl_dialect(),
    &llama_factory_dialect(),   &torchtune_dialect(),  &trl_preferences_dialect(),
    &trl_sft_dialect(),         &accelerate_dialect(), &deepspeed_dialect(),
    &transformers_dialect(),    &peft_dialect(),       &hugging_face_config(),
};

struct SyntaxEnding {
  std::string_view ending;
  Syntax syntax;
};
constexpr SyntaxEnding kEndings[] = {
    {".toml", Syntax::toml},   {".sh", Syntax::shell},     {".bash", Syntax::shell},
    {".slurm", Syntax::shell}, {".sbatch", Syntax::shell}, {".py", Syntax::python},
};

bool has_all(const Value& root, TellingKeys keys) {
  return std::ranges::all_of(
      keys, [&root](std::string_view key) { return find_path(root, key) != nullptr; });
}

}  // namespace

std::span<const Dialect* const> dialects() { return kDialects; }

std::vector<std::string_view> known_dialects() {
  std::vector<std::string_view> names;
  for (const Dialect* dialect : kDialects) names.push_back(dialect->name);
  return names;
}

Syntax syntax_of(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kEndings, [name](const SyntaxEnding& row) { return name.ends_with(row.ending); });
  return found == std::end(kEndings) ? Syntax::tree : found->syntax;
}

Checked<Value> parse_foreign(const SourcePointer& source) {
  switch (syntax_of(source->name)) {
    case Syntax::tree:
      return parse_source(source);
    case Syntax::toml:
      return parse_toml(source);
    case Syntax::shell:
      return parse_shell(source);
    case Syntax::python:
      return parse_python(source);
  }
  unreachable("every syntax has a parser");
}

const Dialect* find_dialect(Syntax syntax, const Value& root) {
  const auto* const found = std::ranges::find_if(kDialects, [&](const Dialect* dialect) {
    return dialect->syntax == syntax &&
           std::ranges::any_of(dialect->telling,
                               [&root](TellingKeys keys) { return has_all(root, keys); });
  });
  return found == std::end(kDialects) ? nullptr : *found;
}

}  // namespace memest
