#include "memest/units/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace memest {
namespace {

constexpr double kKilo = 1e3;
constexpr double kMega = 1e6;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kPeta = 1e15;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Length of the decimal number that `text` starts with; 0 where there is none or it has a leading
/// zero.
std::size_t number_length(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end == 0 || (end > 1 && text[0] == '0')) return 0;
  if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
    ++end;
    while (end < text.size() && is_digit(text[end])) ++end;
  }
  return end;
}

struct NumberAndUnit {
  std::optional<UnitError> error;
  std::string_view number;
  const Unit* unit = nullptr;
  std::size_t position = 0;
};

NumberAndUnit split(std::string_view text, const std::vector<Unit>& units) {
  const std::size_t digits = number_length(text);
  if (digits == 0) return {UnitError::not_a_number, {}, nullptr, 0};
  std::size_t start = digits;
  if (start < text.size() && text[start] == ' ') ++start;
  if (start == text.size()) return {UnitError::missing_unit, {}, nullptr, digits};
  const std::string_view name = text.substr(start);
  const auto unit =
      std::find_if(units.begin(), units.end(), [name](const Unit& u) { return u.name == name; });
  if (unit == units.end()) {
    const bool number_goes_on =
        is_digit(name[0]) || name[0] == '.' || name[0] == ',' || name[0] == '_';
    return {number_goes_on ? UnitError::not_a_number : UnitError::unknown_unit, {}, nullptr, start};
  }
  return {std::nullopt, text.substr(0, digits), &*unit, start};
}

double decimal_value(std::string_view number) {
  double value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  return value;
}

std::string scaled(double value, std::string_view unit) {
  std::array<char, 48> buffer{};
  const int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : 2;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*f ", decimals, value);
  return std::string(buffer.data(), static_cast<std::size_t>(length)) + std::string(unit);
}

std::string in_units(Bytes bytes, double step, const std::array<std::string_view, 5>& names) {
  double value = bytes.as_double();
  if (std::abs(value) < step) return to_string(bytes.value()) + " B";
  std::size_t index = 0;
  while (index + 1 < names.size() && std::abs(value) >= step) {
    value /= step;
    ++index;
  }
  return scaled(value, names[index]);
}

}  // namespace

const std::vector<Unit>& byte_units() {
  static const std::vector<Unit> units = {{"B", 1},
                                          {"kB", kKilo},
                                          {"KiB", 1024.0},
                                          {"MB", kMega},
                                          {"MiB", 1048576.0},
                                          {"GB", kGiga},
                                          {"GiB", 1073741824.0},
                                          {"TB", kTera},
                                          {"TiB", 1099511627776.0}};
  return units;
}

const std::vector<Unit>& time_units() {
  static const std::vector<Unit> units = {{"ns", 1e-9},  {"us", 1e-6},  {"µs", 1e-6},
                                          {"ms", 1e-3},  {"s", 1},      {"min", 60.0},
                                          {"h", 3600.0}, {"d", 86400.0}};
  return units;
}

const std::vector<Unit>& flop_units() {
  static const std::vector<Unit> units = {{"FLOP", 1},      {"kFLOP", kKilo}, {"MFLOP", kMega},
                                          {"GFLOP", kGiga}, {"TFLOP", kTera}, {"PFLOP", kPeta},
                                          {"EFLOP", 1e18},  {"ZFLOP", 1e21}};
  return units;
}

const std::vector<Unit>& flop_rate_units() {
  static const std::vector<Unit> units = {
      {"GFLOP/s", kGiga}, {"TFLOP/s", kTera}, {"TOP/s", kTera}, {"PFLOP/s", kPeta}};
  return units;
}

const std::vector<Unit>& byte_rate_units() {
  static const std::vector<Unit> units = {{"MB/s", kMega},
                                          {"GB/s", kGiga},
                                          {"Gbit/s", kGiga / 8},
                                          {"GiB/s", 1073741824.0},
                                          {"TB/s", kTera}};
  return units;
}

const std::vector<Unit>& clock_units() {
  static const std::vector<Unit> units = {
      {"Hz", 1}, {"kHz", kKilo}, {"MHz", kMega}, {"GHz", kGiga}};
  return units;
}

ParsedQuantity parse_quantity(std::string_view text, const std::vector<Unit>& units) {
  const NumberAndUnit parts = split(text, units);
  if (parts.error) return {parts.error, 0, parts.position};
  const double value = decimal_value(parts.number) * parts.unit->factor;
  if (!std::isfinite(value)) return {UnitError::out_of_range, 0, 0};
  return {std::nullopt, value, 0};
}

ParsedBytes parse_bytes(std::string_view text) {
  const NumberAndUnit parts = split(text, byte_units());
  if (parts.error) return {parts.error, Bytes(), parts.position};
  std::int64_t whole = 0;
  const auto [end, status] =
      std::from_chars(parts.number.data(), parts.number.data() + parts.number.size(), whole);
  std::int64_t bytes = 0;
  if (status == std::errc{} && end == parts.number.data() + parts.number.size()) {
    if (__builtin_mul_overflow(whole, static_cast<std::int64_t>(parts.unit->factor), &bytes)) {
      return {UnitError::out_of_range, Bytes(), 0};
    }
    return {std::nullopt, Bytes(bytes), 0};
  }
  const double value = std::round(decimal_value(parts.number) * parts.unit->factor);
  if (value >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
    return {UnitError::out_of_range, Bytes(), 0};
  }
  return {std::nullopt, Bytes(static_cast<std::int64_t>(value)), 0};
}

std::string grouped(Int128 value) {
  std::string digits = to_string(value);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string binary_text(Bytes bytes) {
  return in_units(bytes, 1024.0, {"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string decimal_text(Bytes bytes) {
  return in_units(bytes, kKilo, {"B", "kB", "MB", "GB", "TB"});
}

}  // namespace memest
