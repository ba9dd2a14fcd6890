#include "kernels/philox.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "kernels/fill.hpp"

using namespace memest::kernels;

namespace {

std::array<std::uint32_t, 4> words(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  const PhiloxWords result = philox(counter, key0, key1);
  return {result.at[0], result.at[1], result.at[2], result.at[3]};
}

}  // namespace

TEST_CASE("Philox gives the known answers of Random123 (tests/kat_vectors, philox4x32 10)") {
  CHECK(words({{0, 0, 0, 0}}, 0, 0) ==
        std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffff, 0xffffffff) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a word becomes a number inside of (0, 1)") {
  CHECK(unit_interval(0) > 0);
  CHECK(unit_interval(0xffffffff) < 1);
  CHECK(unit_interval(0x80000000) > 0.5F);
}

TEST_CASE("normal data have the moments of a normal distribution") {
  std::vector<double> values(100'001);
  fill<double>({.name = "x"}, 3, values);
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  const double n = static_cast<double>(values.size());
  CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2 / n));
  CHECK(std::abs(fourth / n - 3) < 5 * std::sqrt(96 / n));
}

TEST_CASE("indices are whole, inside of their limit, and reach both ends") {
  std::vector<double> values(2'000);
  fill<double>({.name = "tokens", .fill = Fill::index, .limit = 7}, 1, values);
  std::array<int, 7> count{};
  for (const double value : values) {
    REQUIRE(value == std::floor(value));
    REQUIRE(value >= 0);
    REQUIRE(value < 7);
    ++count[static_cast<std::size_t>(value)];
  }
  for (const int each : count) CHECK(each > 200);
}
