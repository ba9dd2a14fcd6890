#include "calibrate/least_squares.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <vector>

namespace memest {
namespace {

using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

/// y = scale · x^power, with one sample ten times too large where asked for.
struct PowerLaw {
  double scale = 1;
  double power = 1;

  void fit(bool with_outlier) {
    std::vector<double> xs;
    for (int i = 1; i <= 30; ++i) xs.push_back(i);
    const auto measured = [with_outlier](double x) {
      return 3 * std::pow(x, 0.7) * (with_outlier && x == 17 ? 10 : 1);
    };
    fit_knobs(
        {{&scale, 0.1, 10}, {&power, 0, 2}}, xs.size(),
        [&](std::size_t row) {
          return std::log(scale * std::pow(xs[row], power) / measured(xs[row]));
        },
        0.03);
  }
};

TEST_CASE("parameters of exact samples are found", "[calibrate]") {
  PowerLaw law;
  law.fit(false);
  CHECK_THAT(law.scale, WithinRel(3, 1e-4));
  CHECK_THAT(law.power, WithinRel(0.7, 1e-4));
}

TEST_CASE("an outlier moves them little", "[calibrate]") {
  PowerLaw law;
  law.fit(true);
  CHECK_THAT(law.scale, WithinRel(3, 0.02));
  CHECK_THAT(law.power, WithinRel(0.7, 0.02));
}

TEST_CASE("a parameter stays in its range where the best is outside", "[calibrate]") {
  double level = 1;
  fit_knobs(
      {{&level, 0.5, 2}}, 10, [&](std::size_t) { return std::log(level / 5); }, 0.03);
  CHECK(level <= 2);
  CHECK_THAT(level, WithinAbs(2, 0.05));
}

TEST_CASE("fewer samples than parameters are fitted all the same", "[calibrate]") {
  double first = 1;
  double second = 1;
  fit_knobs(
      {{&first, 0.1, 10}, {&second, 0.1, 10}}, 1,
      [&](std::size_t) { return std::log(first * second / 6); }, 0.03);
  CHECK_THAT(first * second, WithinRel(6, 1e-3));
}

}  // namespace
}  // namespace memest
