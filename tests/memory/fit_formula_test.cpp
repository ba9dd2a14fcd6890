// Polynomials are found again from their values at the points that are recorded.
#include "memest/memory/recorded/fit_formula.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "../draws.hpp"
#include "memest/memory/recorded/fit_family.hpp"

namespace memest {
namespace {

std::vector<std::int64_t> values_at(const SizeFormula& formula,
                                    const std::vector<SizePoint>& points) {
  std::vector<std::int64_t> values;
  for (const SizePoint& point : points) values.push_back(formula.evaluate(point).value());
  return values;
}

/// One or two terms of degree 3 at most, no exponent above 2.
SizeFormula drawn_formula(test::Draws& draws, std::size_t numbers) {
  std::vector<SizeFormula::Term> terms;
  const std::size_t count = 1 + draws.below(2);
  while (terms.size() < count) {
    SizeFormula::Term term{static_cast<std::int64_t>(1 + draws.below(100'000)),
                           SizeExponents(numbers)};
    for (std::uint8_t& exponent : term.exponents) {
      exponent = static_cast<std::uint8_t>(draws.below(3));
    }
    if (degree_of(term.exponents) <= 3) terms.push_back(term);
  }
  return SizeFormula(terms);
}

TEST_CASE("drawn polynomials of two terms are found again") {
  test::Draws draws(20);
  const std::vector<std::vector<VariedSize>> programs{
      {{"batch", {2, 3, 5}}, {"seq", {512, 640, 896}}},
      {{"batch", {1, 2, 4}}, {"side", {17, 31, 40}}},
      {{"batch", {2, 3, 5}}, {"seq", {512, 640, 896}}, {"layers", {1, 2, 3}}}};
  for (int i = 0; i < 300; ++i) {
    const auto& varied = programs[draws.below(programs.size())];
    const std::vector<SizePoint> points = points_of(varied).fitted;
    const SizeFormula formula = drawn_formula(draws, varied.size());
    const auto fitted = FormulaFitter(points).fit(values_at(formula, points));
    REQUIRE(fitted.has_value());
    INFO(formula.text({"a", "b", "c"}) << " became " << fitted->text({"a", "b", "c"}));
    CHECK(*fitted == formula);
  }
}

TEST_CASE("coefficients may be fractions") {
  const std::vector<SizePoint> points{{2, 512}, {3, 512}, {5, 512}, {2, 640}, {2, 896}, {5, 896}};
  const SizeFormula formula({{3, {1, 2}}, {8, {1, 1}}}, 64);
  CHECK(FormulaFitter(points).fit(values_at(formula, points)) == formula);
}

TEST_CASE("the simplest formula is taken") {
  const FormulaFitter fitter({{2, 512}, {3, 512}, {5, 512}, {2, 640}, {2, 896}, {5, 896}});
  CHECK(fitter.fit({7, 7, 7, 7, 7, 7}) == SizeFormula({{7, {0, 0}}}));
  CHECK(fitter.fit({8, 12, 20, 8, 8, 20}) == SizeFormula({{4, {1, 0}}}));
}

TEST_CASE("a workspace with so much for each block grows in steps") {
  // The sort of cub in the backward of an embedding, as torch 2.11 asks for it.
  const FormulaFitter fitter({{4, 1024}, {5, 1024}, {8, 1024}, {4, 1152}, {4, 1408}, {8, 1408}});
  const auto formula = fitter.fit({83455, 100863, 150015, 91647, 109055, 200191});
  REQUIRE(formula.has_value());
  CHECK(formula->text({"batch", "seq"}) == "16*batch*seq+16895+1024*ceil(batch*seq/4608..5119)");
}

TEST_CASE("steps stand before a polynomial that happens to hit them") {
  // A gradient of 50,304 x 256 for every 2,048 rows, at which a polynomial of four terms is exact
  // too.
  const FormulaFitter fitter({{4, 1280}, {5, 1280}, {8, 1280}, {4, 1920}, {4, 2560}, {8, 2560}});
  const std::int64_t each = 50304 * 256 * 4;
  const auto formula = fitter.fit({3 * each, 4 * each, 5 * each, 4 * each, 5 * each, 10 * each});
  REQUIRE(formula.has_value());
  CHECK(formula->text({"batch", "seq"}) == "51511296*ceil(batch*seq/2048..2133)");
}

TEST_CASE("sizes that no formula gives have none") {
  const std::vector<SizePoint> points{{2, 512}, {3, 512}, {5, 512}, {2, 640}, {2, 896}, {5, 896}};
  const FormulaFitter fitter(points);
  std::vector<std::int64_t> rounded;
  std::vector<std::int64_t> drawn;
  test::Draws draws(1);
  for (const SizePoint& point : points) {
    rounded.push_back(std::int64_t{1} << (2 * point[0] + point[1] / 64));
    drawn.push_back(static_cast<std::int64_t>(draws.below(1'000'000)));
  }
  CHECK(fitter.fit(rounded) == std::nullopt);
  CHECK(fitter.fit(drawn) == std::nullopt);
}

TEST_CASE("two points have a line, three none that misses one") {
  CHECK(FormulaFitter({{2}, {5}}).fit({9, 21}) ==
        SizeFormula({SizeFormula::Term{4, {1}}, SizeFormula::Term{1, {0}}}));
  const FormulaFitter three({{2}, {3}, {5}});
  CHECK(three.fit({9, 13, 21}) ==
        SizeFormula({SizeFormula::Term{4, {1}}, SizeFormula::Term{1, {0}}}));
  CHECK(three.fit({16, 36, 100}) == SizeFormula({SizeFormula::Term{4, {2}}}));
  CHECK(three.fit({9, 14, 21}) == std::nullopt);
}

TEST_CASE("sizes whose coefficients leave 128 bits have no formula") {
  const std::vector<VariedSize> varied{
      {"n", {100'003, 200'017, 300'017, 400'031, 500'029, 600'043, 700'057, 800'011}}};
  const std::vector<SizePoint> points = points_of(varied).fitted;
  std::vector<std::int64_t> sizes;
  std::int64_t size = (std::int64_t{1} << 49U) + 1;
  for (std::size_t i = 0; i < points.size(); ++i) {
    sizes.push_back(size);
    size = size / 3 * 2 + 7;
  }
  CHECK(!FormulaFitter(points).fit(sizes));
}

}  // namespace
}  // namespace memest
