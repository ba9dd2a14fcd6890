#include "memest/symbolic/rational.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <limits>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

TEST_CASE("fractions are reduced, their denominators positive") {
  CHECK(Rational(6, 4) == Rational(3, 2));
  CHECK(Rational(3, -6) == Rational(-1, 2));
  CHECK(Rational(0, -5) == Rational(0));
  CHECK(Rational(3, 2).text() == "3/2");
  CHECK(Rational(8, 2).text() == "4");
}

TEST_CASE("arithmetic is exact") {
  CHECK(Rational(1, 3) + Rational(1, 6) == Rational(1, 2));
  CHECK(Rational(1, 3) - Rational(1, 3) == Rational(0));
  CHECK(Rational(2, 3) * Rational(3, 4) == Rational(1, 2));
  CHECK(Rational(2, 3) / Rational(-4, 3) == Rational(-1, 2));
}

TEST_CASE("a fraction that leaves 64 bits throws") {
  const Rational most(std::numeric_limits<std::int64_t>::max());
  CHECK_THROWS_AS(most + most, OverflowError);
  CHECK_THROWS_AS(most * Rational(2), OverflowError);
  CHECK(most * Rational(1, 2) * Rational(2) == most);
}

}  // namespace
}  // namespace memest
