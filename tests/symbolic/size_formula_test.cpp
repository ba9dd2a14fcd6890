#include "memest/symbolic/size_formula.hpp"

#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

const std::vector<std::string> kNames{"batch", "seq"};

TEST_CASE("a formula's terms are sorted, joined and reduced") {
  const SizeFormula formula({{6, {0, 0}}, {9, {1, 2}}, {3, {1, 0}}, {-3, {1, 0}}, {3, {0, 1}}}, 12);
  CHECK(formula.denominator() == 4);
  REQUIRE(formula.terms().size() == 3);
  CHECK(formula.text(kNames) == "(3*batch*seq^2+seq+2)/4");
  CHECK(SizeFormula({{4, {1, 1}}, {-512, {0, 0}}}).text(kNames) == "4*batch*seq-512");
  CHECK(SizeFormula({{-1, {2, 0}}}).text(kNames) == "-batch^2");
  CHECK(SizeFormula().text(kNames) == "0");
  CHECK(SizeFormula({{0, {1, 0}}}) == SizeFormula());
}

TEST_CASE("a formula is evaluated exactly, or not at all") {
  const SizeFormula half({{1, {1, 1}}}, 2);
  CHECK(half.evaluate({3, 4}) == 6);
  CHECK(half.evaluate({3, 5}) == std::nullopt);
  CHECK(half.evaluate_up({3, 5}) == 8);
  CHECK(half.evaluate_up({3, 4}) == 6);
  CHECK(SizeFormula({{-1, {1, 0}}}, 2).evaluate_up({3, 1}) == -1);
  CHECK(SizeFormula({{1, {1, 0}}, {-8, {0, 0}}}).evaluate({3, 1}) == -5);
  const std::int64_t large = std::int64_t{1} << 40U;
  // The products cancel in 128 bits.
  CHECK(SizeFormula({{1, {1, 1}}, {-1, {2, 0}}}).evaluate({large, large}) == 0);
  CHECK(SizeFormula({{1, {1, 1}}}).evaluate({large, large}) == std::nullopt);
  CHECK(SizeFormula({{large, {2, 2}}}).evaluate_up({large, large}) == std::nullopt);
}

TEST_CASE("a sum has a common denominator") {
  const SizeFormula sum =
      SizeFormula({{1, {1, 0}}}, 4) + SizeFormula({{1, {1, 0}}, {1, {0, 0}}}, 6);
  CHECK(sum.text(kNames) == "(5*batch+2)/12");
  CHECK(sum + SizeFormula() == sum);
  const SizeFormula most({{std::numeric_limits<std::int64_t>::max(), {1, 0}}});
  CHECK_THROWS_AS(most + most, OverflowError);
}

TEST_CASE("a step counts tiles, of a length that lies within two") {
  const SizeFormula formula({{16, {1, 1}}, {255, {0, 0}}}, 1, {{1024, {1, 1}, 4608, 5119}});
  CHECK(formula.text(kNames) == "16*batch*seq+255+1024*ceil(batch*seq/4608..5119)");
  CHECK(formula.evaluate({4, 1152}) == 16 * 4608 + 255 + 1024);
  CHECK(formula.slack({4, 1152}) == 0);
  CHECK(formula.evaluate({5, 1000}) == 16 * 5000 + 255 + 2048);
  CHECK(formula.slack({5, 1000}) == 1024);
  CHECK((formula + formula).text(kNames) == "32*batch*seq+510+2048*ceil(batch*seq/4608..5119)");
}

}  // namespace
}  // namespace memest
