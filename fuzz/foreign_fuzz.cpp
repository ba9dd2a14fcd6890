// Any bytes as another program's file, in each of the forms that are read: keys of a spec or
// diagnostics that can be shown, and nothing else. What is printed of a spec reads back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "memest/reader/read_job.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/units/int128.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"

namespace {

using namespace memest;

/// YAML 1.2, 7.4: an implicit key has at most 1,024 characters.
bool has_long_key(const Value& value) {
  return std::ranges::any_of(value.members, [](const Member& member) {
    return member.key.size() > 1000 || has_long_key(member.value);
  });
}

void read_as(const char* name, const std::string& text) {
  const auto source = std::make_shared<const SourceText>(SourceText{name, text});
  const Checked<Value> tree = parse_foreign(source);
  expect(tree.ok() || !render(tree.diagnostics(), {}).empty(), "a refusal that says nothing");
  if (!tree.ok()) return;
  for (const Dialect* dialect : dialects()) {
    if (dialect->syntax != syntax_of(name)) continue;
    const Checked<ForeignSpec> spec = import_tree(*dialect, tree.value());
    expect(spec.ok() || !render(spec.diagnostics(), {}).empty(), "a refusal that says nothing");
    if (!spec.ok()) continue;
    const auto printed = std::make_shared<const SourceText>(
        SourceText{"import.yaml", write_foreign_spec(spec.value()) + "\n# end\n"});
    const bool skips = spec.value().tree.members.empty() || has_long_key(spec.value().tree);
    expect(skips || parse_yaml(printed).ok(), "a spec that is printed and does not read back");
  }
  const Checked<Job> job = read_job(source);
  expect(job.ok() || !render(job.diagnostics(), {}).empty(), "a refusal that says nothing");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  for (const char* name : {"fuzz.toml", "fuzz.sh", "fuzz.py", "fuzz.yaml"}) {
    try {
      read_as(name, text);
    } catch (
        const OverflowError&) {  // sizes whose product leaves 64 bits: the tool says a sentence
    }
  }
  return 0;
}
