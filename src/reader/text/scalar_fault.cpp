#include "reader/text/scalar_fault.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "reader/keys/check.hpp"
#include "reader/text/hub_name.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// FLOPs are counted in 128 bits.
constexpr double kMostFlops = 1e38;

using Fault = std::optional<Diagnostic>;

std::vector<std::string> texts_of(std::span<const Word> words) {
  std::vector<std::string> texts;
  for (const Word& word : words) texts.emplace_back(word.text);
  return texts;
}

std::string bounds_text(double value) {
  return value == static_cast<double>(static_cast<std::int64_t>(value))
             ? std::to_string(static_cast<std::int64_t>(value))
             : std::to_string(value);
}

/// "8k" is 8192 to who counts tokens, 8000 to others; empty for no such number.
std::string hint_of_multiple(std::string_view text) {
  constexpr std::string_view kSuffixes = "kKmM";
  constexpr std::int64_t kMost = 100'000;  // of thousands, within any count
  if (text.empty() || kSuffixes.find(text.back()) == std::string_view::npos) return {};
  const std::optional<std::int64_t> number = integer_of(text.substr(0, text.size() - 1));
  if (!number || *number < 1 || *number > kMost) return {};
  const bool millions = text.back() == 'm' || text.back() == 'M';
  const std::int64_t binary = millions ? std::int64_t{1} << 20 : 1024;
  const std::int64_t decimal = millions ? 1'000'000 : 1'000;
  return "write " + std::to_string(*number * binary) + ", or " + std::to_string(*number * decimal);
}

Fault find_count_fault(const Value& value, const KeyShape& shape, const std::string& name) {
  if (value.quoted) {
    return error_at(value.span, name + " is a whole number, not a text in quotes",
                    integer_of(value.text) ? "write " + value.text : "");
  }
  if (const std::optional<std::int64_t> number = integer_of(value.text)) {
    if (*number < shape.least) {
      return error_at(value.span,
                      name + " is at least " + std::to_string(shape.least) + ", not " + value.text);
    }
    if (*number > shape.most) {
      return error_at(value.span,
                      name + " is at most " + std::to_string(shape.most) + ", not " + value.text);
    }
    return {};
  }
  std::string digits;
  std::copy_if(value.text.begin(), value.text.end(), std::back_inserter(digits),
               [](char c) { return c != ',' && c != '_' && c != ' '; });
  const bool only_digits =
      !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  const std::size_t first = std::min(digits.find_first_not_of('0'), digits.size());
  if (only_digits && first > 0 && digits.size() == value.text.size()) {
    const std::string number = first == digits.size() ? "0" : digits.substr(first);
    return error_at(value.span, name + " has a leading zero: " + quote(value.text),
                    "write " + number + "; a leading zero means octal in some YAML readers");
  }
  if (only_digits && digits.size() == value.text.size()) {
    return error_at(value.span, name + " is at most " + std::to_string(shape.most) + ", not " +
                                    quote(value.text));
  }
  return error_at(value.span, name + " is a whole number, not " + quote(value.text),
                  only_digits ? "write " + digits : hint_of_multiple(value.text));
}

Fault find_number_fault(const Value& value, const KeyShape& shape, const std::string& name) {
  const std::optional<double> number = as_number(&value);
  if (number && *number >= shape.low && *number <= shape.high) return {};
  return error_at(value.span, name + " is " + noun_of(shape) + ", not " + quote(value.text));
}

Fault find_flag_fault(const Value& value, const std::string& name) {
  if (as_flag(&value)) return {};
  std::string lower = value.text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const bool yes = lower == "yes" || lower == "on" || lower == "true" || lower == "1";
  const bool no = lower == "no" || lower == "off" || lower == "false" || lower == "0";
  return error_at(value.span, name + " is true or false, not " + quote(value.text),
                  yes  ? "write true"
                  : no ? "write false"
                       : "");
}

/// The span of what follows the first `offset` bytes of a scalar.
SourceSpan tail_of(const Value& value, std::size_t offset) {
  SourceSpan span = value.span;
  const auto skipped = static_cast<std::int32_t>(offset) + (value.quoted ? 1 : 0);
  const std::int32_t rest = span.length - skipped - (value.quoted ? 1 : 0);
  if (offset == 0 || rest <= 0) return span;
  span.column += skipped;
  span.length = rest;
  return span;
}

Fault find_quantity_fault(const Value& value, const KeyShape& shape, const std::string& name) {
  const DimensionWords words = words_of(shape.dimension);
  std::optional<UnitError> error;
  std::size_t position = 0;
  double amount = 0;
  if (shape.dimension == Dimension::size) {
    const ParsedBytes parsed = parse_bytes(value.text);
    error = parsed.error;
    position = parsed.position;
    amount = parsed.value.as_double();
  } else {
    const ParsedQuantity parsed = parse_quantity(value.text, units_in(shape.dimension));
    error = parsed.error;
    position = parsed.position;
    amount = parsed.value;
  }
  if (!error) {
    const bool share = shape.dimension == Dimension::share;
    if (share && amount >= 1) return error_at(value.span, name + " is less than 100 %");
    if (!share && amount <= 0) return error_at(value.span, name + " is more than 0");
    if (shape.dimension == Dimension::flops && amount > kMostFlops) {
      return error_at(value.span, name + " is too large: " + quote(value.text));
    }
    return {};
  }
  switch (*error) {
    case UnitError::missing_unit: {
      const auto with = [&value](std::string_view unit) {
        return value.text + " " + std::string(unit);
      };
      const std::string other = words.other_unit.empty() ? "" : " or " + with(words.other_unit);
      return error_at(value.span, std::string(words.noun) + " needs its unit",
                      "write " + with(words.usual_unit) + other);
    }
    case UnitError::unknown_unit: {
      std::vector<std::string> names;
      for (const Unit& unit : units_in(shape.dimension)) names.emplace_back(unit.name);
      const std::string unit = value.text.substr(position);
      const std::string hint = suggestion(unit, names);
      return error_at(tail_of(value, position), "unknown unit " + quote(unit),
                      hint.empty()
                          ? (names.size() == 1 ? "the unit is " : "the units are ") + joined(names)
                          : hint);
    }
    case UnitError::out_of_range:
      return error_at(value.span, name + " is too large: " + quote(value.text));
    case UnitError::not_a_number:
      return error_at(value.span, name + " is " + noun_of(shape) + ", not " + quote(value.text));
  }
  unreachable("a unit error beyond the enum");
}

Fault find_choice_fault(const Value& value, const KeyShape& shape, const std::string& name) {
  const auto word =
      std::find_if(shape.words.begin(), shape.words.end(),
                   [&](const Word& candidate) { return candidate.text == value.text; });
  if (word == shape.words.end()) {
    const std::vector<std::string> names = texts_of(shape.words);
    const std::string hint = suggestion(value.text, names);
    return error_at(value.span, "unknown value " + quote(value.text) + " for " + name,
                    hint.empty() ? "known: " + joined(names) : hint);
  }
  if (word->later.empty()) return {};
  return unavailable_at(value.span, std::string(word->later), "it comes with a later version");
}

Fault find_catalog_fault(const Value& value, const KeyShape& shape, const std::string& name) {
  const std::vector<std::string> names = catalog_names(shape.folder);
  if (std::find(names.begin(), names.end(), value.text) != names.end()) return {};
  std::string hint = shape.folder == "models" ? hint_of_hub_name(value.text) : std::string();
  if (hint.empty()) hint = suggestion(value.text, names);
  if (hint.empty()) hint = "`memest " + std::string(shape.folder) + "` lists what is known";
  return error_at(value.span, "unknown value " + quote(value.text) + " for " + name,
                  std::move(hint));
}

}  // namespace

std::string noun_of(const KeyShape& shape) {
  switch (shape.form) {
    case Form::none:
      return "";
    case Form::flag:
      return "true or false";
    case Form::count:
      return "a whole number";
    case Form::number:
      return "a number from " + bounds_text(shape.low) + " to " + bounds_text(shape.high);
    case Form::quantity:
      return std::string(words_of(shape.dimension).noun) + " such as " +
             std::string(words_of(shape.dimension).example);
    case Form::choice:
      return shape.words.size() == 1 ? quote(shape.words.front().text)
                                     : "one of " + joined(texts_of(shape.words));
    case Form::catalog:
      return "a name";
    case Form::target:
      return "a compute capability or a gfx target, such as '9.0' or 'gfx942'";
    case Form::gpu:
      return "a GPU's name";
    case Form::text:
      return "a text";
    case Form::table:
    case Form::document:
      return "a mapping of keys";
    case Form::list:
      return "a list";
  }
  unreachable("a form beyond the enum");
}

std::optional<Diagnostic> find_scalar_fault(const Value& value, const KeyShape& shape,
                                            const std::string& name) {
  switch (shape.form) {
    case Form::flag:
      return find_flag_fault(value, name);
    case Form::count:
      return find_count_fault(value, shape, name);
    case Form::number:
      return find_number_fault(value, shape, name);
    case Form::quantity:
      return find_quantity_fault(value, shape, name);
    case Form::choice:
      return find_choice_fault(value, shape, name);
    case Form::catalog:
      return find_catalog_fault(value, shape, name);
    case Form::target:
      if (as_target(&value)) return {};
      return error_at(value.span, name + " is " + noun_of(shape) + ", not " + quote(value.text));
    case Form::gpu:
    case Form::text:
      if (!value.text.empty()) return {};
      return error_at(value.span, name + " is empty");
    case Form::none:
    case Form::table:
    case Form::document:
    case Form::list:
      break;
  }
  unreachable("a scalar against the shape of a collection");
}

}  // namespace memest
