// Any bytes as a Hugging Face config.json: a model or diagnostics. What our JSON parser takes
// another parser takes too, and the other way round, save what we refuse on purpose.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "memest/report/diagnostics.hpp"
#include "memest/units/int128.hpp"
#include "reader/hf/hf_config.hpp"
#include "reader/text/value.hpp"

namespace {

using namespace memest;

/// A limit of ours, not a mistake in the JSON.
bool is_limit(const Diagnostic& diagnostic) {
  const std::string_view message = diagnostic.message;
  for (const std::string_view limit : {"duplicate key", "nested more than",
                                       "more than 100000 values", "binary file", "larger than"}) {
    if (message.find(limit) != std::string_view::npos) return true;
  }
  return false;
}

void compare_parsers(const std::string& text, const Checked<Value>& ours) {
  const bool theirs = nlohmann::json::accept(text);
  // nlohmann-json takes a byte-order mark, and refuses numbers beyond a double.
  if (text.starts_with("\xEF\xBB\xBF")) return;
  const bool limited = std::any_of(ours.diagnostics().begin(), ours.diagnostics().end(), is_limit);
  expect(!theirs || ours.ok() || limited, "JSON that only the other parser takes");
  const bool has_exponent = text.find_first_of("eE") != std::string::npos;
  const bool has_long_number = text.size() > 300;
  expect(!ours.ok() || theirs || has_exponent || has_long_number,
         "JSON that only our parser takes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto source =
      std::make_shared<const SourceText>(SourceText{"config.json", std::string(data, data + size)});
  const Checked<Value> config = parse_json(source);
  compare_parsers(source->text, config);
  if (!config.ok()) {
    expect(!render(config.diagnostics(), {}).empty(), "a refusal that says nothing");
    return 0;
  }
  try {
    for (const ConfigPart part : {ConfigPart::whole, ConfigPart::text}) {
      const Checked<ModelSpec> model = read_hf_config(config.value(), "fuzz", part);
      expect(model.ok() || !render(model.diagnostics(), {}).empty(), "a refusal that says nothing");
    }
  } catch (
      const OverflowError&) {  // sizes whose product leaves 64 bits: the tool answers in a sentence
  }
  return 0;
}
