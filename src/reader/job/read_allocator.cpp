#include "reader/job/read_allocator.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memest/reader/read_trace.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

constexpr std::int64_t kSmallestSplit = 20;  // MiB: the large buffer, which PyTorch asks for
constexpr std::int64_t kLargestSplit = 1'000'000'000;  // MiB
constexpr std::string_view kBlanks = " \t";

bool is_power_of_two(std::int64_t number) {
  return number > 0 && std::has_single_bit(static_cast<std::uint64_t>(number));
}

/// The pieces between commas that stand outside brackets.
std::vector<PlacedText> split(const PlacedText& whole) {
  std::vector<PlacedText> pieces;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= whole.text.size(); ++at) {
    const char sign = at < whole.text.size() ? whole.text[at] : ',';
    if (sign == '[') ++depth;
    if (sign == ']') --depth;
    if (sign != ',' || (depth > 0 && at < whole.text.size())) continue;
    pieces.push_back(whole.part(begin, at - begin).trimmed());
    begin = at + 1;
  }
  if (pieces.back().text.empty()) pieces.pop_back();  // a comma may stand at the end
  return pieces;
}

struct NamedText {
  PlacedText name;
  PlacedText value;
};

/// `name:value`; nothing where there is no colon.
std::optional<NamedText> name_and_value(const PlacedText& text) {
  const std::size_t colon = text.text.find(':');
  if (colon == std::string_view::npos) return {};
  return NamedText{text.part(0, colon).trimmed(),
                   text.part(colon + 1, text.text.size() - colon - 1).trimmed()};
}

Diagnostic not_divisions(const PlacedText& text) {
  return error_at(text.span, "divisions are a power of two, not " + quote(text.text),
                  "one number for all sizes, or a list: [256:1,512:2,>:4]");
}

/// The class of sizes from `text` MiB on.
std::optional<std::size_t> class_of(const PlacedText& text, Diagnostics& diagnostics) {
  const std::optional<std::int64_t> size = integer_of(text.text);
  if (!size || !is_power_of_two(*size)) {
    diagnostics.push_back(
        error_at(text.span, "a size in MiB is a power of two, or >, not " + quote(text.text)));
    return {};
  }
  const auto power = static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(*size)));
  // AcceleratorAllocatorConfig keeps sixteen classes, one a power of two: the last holds for all
  // sizes beyond it.
  return std::min(power, kRoundingClasses - 1);
}

/// PyTorch's list, in its own reading: the first entry also holds for all smaller sizes, `>` for
/// the classes after the last one named, and a class between two named ones is not rounded.
void read_division_list(const PlacedText& list, RoundingDivisions& divisions,
                        Diagnostics& diagnostics) {
  std::size_t last = 0;
  bool first = true;
  for (const PlacedText& entry : split(list)) {
    const std::optional<NamedText> pair = name_and_value(entry);
    if (!pair) {
      diagnostics.push_back(
          error_at(entry.span, "an entry is written MIB:DIVISIONS, not " + quote(entry.text)));
      continue;
    }
    const std::optional<std::int64_t> parts = integer_of(pair->value.text);
    if (!parts || (*parts != 0 && !is_power_of_two(*parts))) {
      diagnostics.push_back(not_divisions(pair->value));
      continue;
    }
    // c10/core/AllocatorConfig.cpp: AcceleratorAllocatorConfig::parseRoundUpPower2Divisions.
    if (pair->name.text == ">") {
      for (std::size_t i = last + 1; i < kRoundingClasses; ++i) divisions[i] = *parts;
      continue;
    }
    const std::optional<std::size_t> size_class = class_of(pair->name, diagnostics);
    if (!size_class) continue;
    for (std::size_t i = 0; first && i < *size_class; ++i) divisions[i] = *parts;
    divisions[*size_class] = *parts;
    last = *size_class;
    first = false;
  }
}

void read_divisions(const PlacedText& text, AllocatorSettings& settings, Diagnostics& diagnostics) {
  if (text.text.starts_with('[') && text.text.ends_with(']')) {
    return read_division_list(text.part(1, text.text.size() - 2), settings.roundup_power2_divisions,
                              diagnostics);
  }
  const std::optional<std::int64_t> parts = integer_of(text.text);
  if (!parts || !is_power_of_two(*parts)) return diagnostics.push_back(not_divisions(text));
  settings.roundup_power2_divisions.fill(*parts);
}

void read_expandable(const PlacedText& text, AllocatorSettings& settings,
                     Diagnostics& diagnostics) {
  if (text.text != "True" && text.text != "False") {
    return diagnostics.push_back(
        error_at(text.span, "'expandable_segments' is True or False, not " + quote(text.text)));
  }
  settings.expandable_segments = text.text == "True";
}

void read_max_split(const PlacedText& text, AllocatorSettings& settings, Diagnostics& diagnostics) {
  const std::optional<std::int64_t> size = integer_of(text.text);
  if (!size || *size < kSmallestSplit || *size > kLargestSplit) {
    return diagnostics.push_back(error_at(
        text.span,
        "'max_split_size_mb' is a whole number of MiB from 20 on, not " + quote(text.text)));
  }
  settings.max_split_size = Bytes(kMiB) * *size;
}

void read_threshold(const PlacedText& text, AllocatorSettings& settings, Diagnostics& diagnostics) {
  const std::optional<double> threshold = number_of(text.text);
  // AcceleratorAllocatorConfig::parseGarbageCollectionThreshold refuses both bounds.
  if (!threshold || *threshold <= 0 || *threshold >= 1) {
    return diagnostics.push_back(
        error_at(text.span,
                 "'garbage_collection_threshold' is above 0 and below 1, not " + quote(text.text)));
  }
  settings.garbage_collection_threshold = threshold;
}

struct Option {
  std::string_view name;
  void (*read)(const PlacedText& text, AllocatorSettings& settings, Diagnostics& diagnostics);
};
constexpr std::array<Option, 4> kOptions = {{
    {"expandable_segments", read_expandable},
    {"max_split_size_mb", read_max_split},
    {"roundup_power2_divisions", read_divisions},
    {"garbage_collection_threshold", read_threshold},
}};

void read_option(const PlacedText& written, AllocatorSettings& settings, Diagnostics& diagnostics) {
  const std::optional<NamedText> pair = name_and_value(written);
  if (!pair) {
    return diagnostics.push_back(
        error_at(written.span, "an option of the allocator is written NAME:VALUE"));
  }
  if (pair->name.text.starts_with("pinned_")) return;  // host memory
  for (const Option& option : kOptions) {
    if (option.name == pair->name.text) return option.read(pair->value, settings, diagnostics);
  }
  std::vector<std::string> names;
  for (const Option& option : kOptions) names.emplace_back(option.name);
  const std::string hint = suggestion(pair->name.text, names);
  diagnostics.push_back(error_at(
      pair->name.span, "the allocator option " + quote(pair->name.text) + " is not modelled",
      hint.empty() ? "modelled are " + joined(names) : hint));
}

/// A scalar's text where it stands, within its quotes.
PlacedText placed(const Value& value) {
  SourceSpan span = value.span;
  if (value.quoted) {
    span.column += 1;
    span.length -= 2;
  }
  return {value.text, span};
}

}  // namespace

PlacedText PlacedText::part(std::size_t offset, std::size_t length) const {
  PlacedText result{text.substr(offset, length), span};
  result.span.column += static_cast<std::int32_t>(offset);
  result.span.length = static_cast<std::int32_t>(length);
  return result;
}

PlacedText PlacedText::trimmed() const {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return part(0, 0);
  return part(first, text.find_last_not_of(kBlanks) + 1 - first);
}

AllocatorSettings read_allocator(const Value* written, Diagnostics& diagnostics) {
  AllocatorSettings settings;
  if (written == nullptr) return settings;
  settings.expandable_segments = as_flag(written->find("expandable_segments")).value_or(false);
  if (const auto size = as_count(written->find("max_split_size_mb"))) {
    settings.max_split_size = Bytes(kMiB) * std::clamp(*size, kSmallestSplit, kLargestSplit);
  }
  const Value* divisions = written->find("roundup_power2_divisions");
  if (as_text(divisions)) read_divisions(placed(*divisions), settings, diagnostics);
  const Value* threshold = written->find("garbage_collection_threshold");
  if (as_text(threshold)) read_threshold(placed(*threshold), settings, diagnostics);
  return settings;
}

AllocatorSettings read_allocator_text(const PlacedText& written, Diagnostics& diagnostics) {
  AllocatorSettings settings;
  if (written.trimmed().text.empty()) return settings;
  for (const PlacedText& option : split(written)) read_option(option, settings, diagnostics);
  return settings;
}

Checked<AllocatorSettings> read_allocator_conf(const std::string& source, const std::string& text) {
  const auto written = std::make_shared<const SourceText>(SourceText{source, text});
  Diagnostics diagnostics;
  const SourceSpan whole{written, 1, 1, static_cast<std::int32_t>(text.size())};
  const AllocatorSettings settings = read_allocator_text({written->text, whole}, diagnostics);
  if (!diagnostics.empty()) return diagnostics;
  return settings;
}

}  // namespace memest
