#include "memest/report/numbers.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "memest/units/text.hpp"

namespace memest {
namespace {

struct Prefix {
  double factor;
  std::string_view name;
};

constexpr std::array<Prefix, 7> kPrefixes = {
    {{1e21, "Z"}, {1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
/// The field counts parameters and tokens in billions.
constexpr std::array<Prefix, 4> kCountPrefixes = {
    {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}}};
constexpr std::array<Prefix, 4> kTimePrefixes = {
    {{1.0, ""}, {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}}};

template <std::size_t kSize>
std::string prefixed(double value, const std::array<Prefix, kSize>& prefixes,
                     std::string_view unit) {
  for (const Prefix& prefix : prefixes) {
    // 999.5 and more would print as 1,000 of the smaller prefix.
    if (std::abs(value) >= prefix.factor * 0.9995) {
      return fmt::format("{} {}{}", significant_text(value / prefix.factor), prefix.name, unit);
    }
  }
  return unit.empty() ? significant_text(value)
                      : fmt::format("{} {}", significant_text(value), unit);
}

}  // namespace

std::string significant_text(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return fmt::format("{}", value);
  // Rounded first: 9.996 to three digits is 10.0, which has one decimal and not two.
  const double rounded = std::strtod(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr);
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(rounded))));
  const int decimals = digits - 1 - magnitude;
  if (decimals > 0) return fmt::format("{:.{}f}", rounded, decimals);
  // A double holds every whole number up to 2^53, which is 9e15.
  if (std::abs(rounded) < 1e15) return grouped(static_cast<Int128>(std::llround(rounded)));
  return fmt::format("{:.{}e}", value, digits - 1);
}

std::string gib_text(Bytes bytes) {
  return fmt::format("{:.1f}", bytes.as_double() / static_cast<double>(kGiB));
}

std::string sized_text(Bytes bytes) { return binary_text(bytes); }

std::string flops_text(Flops flops) { return prefixed(flops.as_double(), kPrefixes, "FLOP"); }

std::string rate_text(FlopsPerSecond rate) { return prefixed(rate.value(), kPrefixes, "FLOP/s"); }

std::string rate_text(BytesPerSecond rate) { return prefixed(rate.value(), kPrefixes, "B/s"); }

std::string seconds_text(Seconds time) { return prefixed(time.value(), kTimePrefixes, "s"); }

std::string dollars_text(Dollars amount) { return significant_text(amount.value()) + " USD"; }

std::string count_text(double count) {
  if (count < 1000 && count == std::floor(count)) return fmt::format("{:.0f}", count);
  return prefixed(count, kCountPrefixes, "");
}

std::string percent_text(double fraction) {
  const double percent = 100 * fraction;
  // 10 % and more have no decimal; 9.95 would be printed as 10.0.
  return fmt::format("{:.{}f} %", percent, std::abs(percent) < 9.95 ? 1 : 0);
}

std::string exact_text(double value) { return fmt::format("{}", value); }

}  // namespace memest
