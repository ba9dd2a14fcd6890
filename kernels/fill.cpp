#include "kernels/fill.hpp"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "kernels/philox.hpp"

namespace memest::kernels {
namespace {

/// Box and Muller (1958): one normal number of two even ones.
float normal(std::uint32_t first, std::uint32_t second) {
  return std::sqrt(-2 * std::log(unit_interval(first))) *
         std::cos(2 * std::numbers::pi_v<float> * unit_interval(second));
}

/// The high half of a 64-bit product: as even as 32 bits are over fewer values.
std::int64_t below(std::int64_t limit, std::uint32_t word) {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(limit) * word) >> 32);
}

float value(const Operand& operand, const PhiloxWords& words, std::size_t pair) {
  const std::uint32_t first = words.at[2 * pair];
  const std::uint32_t second = words.at[2 * pair + 1];
  switch (operand.fill) {
    case Fill::normal:
      return normal(first, second);
    case Fill::positive:
      return std::abs(normal(first, second));
    case Fill::index:
      return static_cast<float>(below(operand.limit, first));
  }
  return 0;
}

}  // namespace

template <class T>
void fill(const Operand& operand, std::uint64_t seed, std::span<T> values) {
  for (std::size_t i = 0; i < values.size(); i += 2) {
    // Counter-based: an element's value depends on its index and the seed alone, on the device as
    // here.
    const PhiloxWords words = random_words(i / 2, seed);
    values[i] = value(operand, words, 0);
    if (i + 1 < values.size()) values[i + 1] = value(operand, words, 1);
  }
}

template void fill<float>(const Operand&, std::uint64_t, std::span<float>);
template void fill<double>(const Operand&, std::uint64_t, std::span<double>);

}  // namespace memest::kernels
