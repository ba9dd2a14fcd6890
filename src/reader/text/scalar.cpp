#include "reader/text/scalar.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

namespace memest {
namespace {

const std::string* plain_text(const Value* value) {
  const bool plain = value != nullptr && value->kind == ValueKind::scalar && !value->quoted;
  return plain ? &value->text : nullptr;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// YAML's and JSON's common ground: no `1.`, `.5`, `+1`, `0x1`, `inf`.
bool is_decimal(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  const auto skip_digits = [&text] {
    std::size_t digits = 0;
    while (digits < text.size() && is_digit(text[digits])) ++digits;
    text.remove_prefix(digits);
    return digits;
  };
  const bool leading_zero = text.size() > 1 && text[0] == '0' && is_digit(text[1]);
  if (skip_digits() == 0 || leading_zero) return false;
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    if (skip_digits() == 0) return false;
  }
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    text.remove_prefix(1);
    if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
    if (skip_digits() == 0) return false;
  }
  return text.empty();
}

constexpr std::string_view kGfx = "gfx";
constexpr int kDecimal = 10;
constexpr int kHexadecimal = 16;

/// All of `text` as digits of `base`; nothing for a sign, a leading zero or no digit.
std::optional<int> digits_of(std::string_view text, int base) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const bool padded = text.size() > 1 && text[0] == '0';
  if (text.empty() || text[0] == '-' || padded) return {};
  const auto [rest, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

/// "10.3": a major number and one digit.
std::optional<GpuTarget> compute_capability_of(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::optional<int> major = digits_of(text.substr(0, point), kDecimal);
  if (!major || text.size() != point + 2) return {};
  const std::optional<int> minor = digits_of(text.substr(point + 1), kDecimal);
  return minor ? std::optional<GpuTarget>(ComputeCapability{*major, *minor}) : std::nullopt;
}

/// "gfx90a": the last two digits are the minor number and the stepping.
std::optional<GpuTarget> gfx_target_of(std::string_view text) {
  text.remove_prefix(kGfx.size());
  if (text.size() < 3) return {};
  const std::size_t last = text.size() - 1;
  const std::optional<int> major = digits_of(text.substr(0, last - 1), kDecimal);
  const std::optional<int> minor = digits_of(text.substr(last - 1, 1), kHexadecimal);
  const std::optional<int> stepping = digits_of(text.substr(last), kHexadecimal);
  if (!major || !minor || !stepping) return {};
  return GfxTarget{*major, *minor, *stepping};
}

}  // namespace

std::optional<std::int64_t> integer_of(std::string_view text) {
  const std::string_view digits = !text.empty() && text[0] == '-' ? text.substr(1) : text;
  if (digits.empty() || !is_digit(digits[0]) || (digits[0] == '0' && digits.size() > 1)) return {};
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

std::optional<double> number_of(std::string_view text) {
  if (!is_decimal(text)) return {};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return {};
  return number;
}

std::optional<bool> as_flag(const Value* value) {
  const std::string* text = plain_text(value);
  if (text == nullptr || (*text != "true" && *text != "false")) return {};
  return *text == "true";
}

std::optional<std::int64_t> as_count(const Value* value) {
  const std::string* text = plain_text(value);
  return text == nullptr ? std::nullopt : integer_of(*text);
}

std::optional<double> as_number(const Value* value) {
  const std::string* text = plain_text(value);
  return text == nullptr ? std::nullopt : number_of(*text);
}

std::optional<std::string> as_text(const Value* value) {
  if (value == nullptr || value->kind != ValueKind::scalar) return {};
  return value->text;
}

std::optional<Bytes> as_bytes(const Value* value) {
  if (value == nullptr || value->kind != ValueKind::scalar) return {};
  const ParsedBytes parsed = parse_bytes(value->text);
  return parsed.error ? std::nullopt : std::optional(parsed.value);
}

std::optional<GpuTarget> as_target(const Value* value) {
  if (value == nullptr || value->kind != ValueKind::scalar) return {};
  if (value->text.starts_with(kGfx)) return gfx_target_of(value->text);
  return compute_capability_of(value->text);
}

std::optional<double> as_quantity(const Value* value, Dimension dimension) {
  if (value == nullptr || value->kind != ValueKind::scalar) return {};
  const ParsedQuantity parsed = parse_quantity(value->text, units_in(dimension));
  return parsed.error ? std::nullopt : std::optional(parsed.value);
}

DimensionWords words_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::size:
      return {"a size", "80 GiB or 80 GB", "GiB", "GB"};
    case Dimension::duration:
      return {"a time", "250 ms or 1.5 s", "s", "ms"};
    case Dimension::flops:
      return {"an amount of work", "40 TFLOP", "TFLOP"};
    case Dimension::money:
      return {"an amount of money", "250 USD", "USD"};
    case Dimension::price:
      return {"a price", "2.49 USD/h", "USD/h"};
    case Dimension::share:
      return {"a share", "5 %", "%"};
    case Dimension::flop_rate:
      return {"a rate of work", "989 TFLOP/s", "TFLOP/s"};
    case Dimension::byte_rate:
      return {"a bandwidth", "3350 GB/s", "GB/s"};
    case Dimension::clock:
      return {"a clock", "1830 MHz", "MHz"};
    case Dimension::power:
      return {"a power", "700 W", "W"};
  }
  unreachable("a dimension beyond the enum");
}

const std::vector<Unit>& units_in(Dimension dimension) {
  static const std::vector<Unit> kMoney = {{"USD", 1}};
  static const std::vector<Unit> kPrice = {{"USD/h", 1}};
  static const std::vector<Unit> kShare = {{"%", 0.01}};
  static const std::vector<Unit> kPower = {{"W", 1}};
  switch (dimension) {
    case Dimension::size:
      return byte_units();
    case Dimension::duration:
      return time_units();
    case Dimension::flops:
      return flop_units();
    case Dimension::money:
      return kMoney;
    case Dimension::price:
      return kPrice;
    case Dimension::share:
      return kShare;
    case Dimension::flop_rate:
      return flop_rate_units();
    case Dimension::byte_rate:
      return byte_rate_units();
    case Dimension::clock:
      return clock_units();
    case Dimension::power:
      return kPower;
  }
  unreachable("a dimension beyond the enum");
}

std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  if (text.size() <= kLongest) return "'" + std::string(text) + "'";
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return "'" + std::string(text.substr(0, end)) + "...'";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Diagnostic unavailable_at(const SourceSpan& span, const std::string& what, std::string hint) {
  Diagnostic diagnostic = error_at(span, what + " is not available yet", std::move(hint));
  diagnostic.unavailable = true;
  return diagnostic;
}

Diagnostic error_at(const SourceSpan& span, std::string message, std::string hint) {
  return {Severity::error, span, std::move(message), std::move(hint)};
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest =
      64;  // no key is longer, and a distance costs the product of both lengths
  if (word.size() > kLongest) return {};
  const std::string nearest = nearest_name(std::string(word), candidates);
  return nearest.empty() ? std::string() : "did you mean '" + nearest + "'?";
}

}  // namespace memest
