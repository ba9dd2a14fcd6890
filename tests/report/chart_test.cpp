#include "memest/report/chart.hpp"

#include <array>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "report/html/palette.hpp"

namespace memest {
namespace {

using Catch::Approx;

std::string plain(double number) { return std::to_string(number); }

std::vector<double> ticks_of(const ChartAxis& axis) {
  std::vector<double> numbers;
  for (const AxisTick& tick : axis.ticks) numbers.push_back(tick.at);
  return numbers;
}

ChartAxis axis_of(AxisScale scale, const std::vector<double>& numbers, double least = 1) {
  return axis_over("", {.scale = scale, .write = plain, .least = least}, numbers);
}

TEST_CASE("an axis goes from a step to a step, and every number lies between", "[report]") {
  const std::vector<double> numbers = GENERATE(
      std::vector<double>{3}, std::vector<double>{0.011, 0.93}, std::vector<double>{56.6, 172},
      std::vector<double>{1, 1000}, std::vector<double>{2e-7, 5e12}, std::vector<double>{10, 100});
  for (const AxisScale scale : {AxisScale::linear, AxisScale::logarithmic, AxisScale::symmetric}) {
    const ChartAxis axis = axis_of(scale, numbers);
    for (const double number : numbers) {
      CHECK(axis.place(number) >= 0);
      CHECK(axis.place(number) <= 1 + 1e-9);
    }
    CHECK(axis.ticks.size() >= 2);
    CHECK(axis.ticks.size() <= 16);
    CHECK(axis.place(axis.low) == 0);
    CHECK(axis.place(axis.high) == Approx(1));
  }
}

TEST_CASE("steps are 1, 2 and 5 of the unit", "[report]") {
  CHECK(ticks_of(axis_of(AxisScale::linear, {0, 6})) == std::vector<double>{0, 2, 4, 6});
  CHECK(ticks_of(axis_of(AxisScale::logarithmic, {56, 172})) == std::vector<double>{50, 100, 200});
  const ChartAxis bytes = axis_over("", ruler_of_bytes(AxisScale::linear), {0, 3.0 * (1U << 30U)});
  CHECK(bytes.ticks.back().text == "3.00 GiB");
}

TEST_CASE("a symmetric axis keeps the side of an error, and sets zero apart", "[report]") {
  const ChartAxis axis = axis_of(AxisScale::symmetric, {-0.02, 0.001}, 1e-4);
  CHECK(axis.place(-0.001) < axis.place(0));
  CHECK(axis.place(0) < axis.place(1e-6));
  CHECK(axis.low <= -0.02);
  CHECK(axis.high == Approx(0.001));
}

TEST_CASE("lanes stand one below the other, each in the middle of its own", "[report]") {
  const ChartAxis axis = lanes_of({"a", "b"});
  CHECK(axis.place(0) == 0.25);
  CHECK(axis.place(1) == 0.75);
}

/// Heights of the texts that stand in the column of names.
std::vector<double> lines_in_column(const std::string& svg) {
  const std::regex text("<text x=\"746.0\" y=\"([0-9.]+)\"");
  std::vector<double> heights;
  for (std::sregex_iterator found(svg.begin(), svg.end(), text), end; found != end; ++found) {
    heights.push_back(std::stod((*found)[1]));
  }
  return heights;
}

TEST_CASE("no name of a drawing covers another, however close the marks", "[report]") {
  MarkChart chart{.x = axis_of(AxisScale::linear, {0, 1}), .y = axis_of(AxisScale::linear, {0, 1})};
  ChartSeries series{.name = "all", .labelled = true};
  for (int i = 0; i < 40; ++i) series.marks.push_back({.x = 0.5, .y = 0.5, .name = "mark"});
  chart.series.push_back(series);
  std::vector<double> heights = lines_in_column(svg_of(chart));
  REQUIRE(heights.size() == 40);
  for (std::size_t i = 1; i < heights.size(); ++i) CHECK(heights[i] - heights[i - 1] >= 15.9);
}

TEST_CASE("names in a drawing are harmless", "[report]") {
  MarkChart chart{.x = axis_of(AxisScale::linear, {0, 1}), .y = axis_of(AxisScale::linear, {0, 1})};
  chart.series.push_back({.name = "<script>", .marks = {{.x = 1, .y = 1, .name = "a<b&\""}}});
  const std::string svg = svg_of(chart);
  CHECK(svg.find("<script>") == std::string::npos);
  CHECK(svg.find("a&lt;b&amp;&quot;") != std::string::npos);
}

using Rgb = std::array<double, 3>;

/// Linear light of "#rrggbb".
Rgb light_of(const char* color) {
  Rgb light{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double share = std::stoi(std::string(color).substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    light[i] = std::pow(share, 2.2);
  }
  return light;
}

/// What an eye without one kind of cone sees: Machado, Oliveira and Fernandes 2009, severity 1.
constexpr std::array<std::array<Rgb, 3>, 3> kEyes = {{{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
                                                      {{{0.152286, 1.052583, -0.204868},
                                                        {0.114503, 0.786281, 0.099216},
                                                        {-0.003882, -0.048116, 1.051998}}},
                                                      {{{0.367322, 0.860646, -0.227968},
                                                        {0.280085, 0.672501, 0.047413},
                                                        {-0.011820, 0.042940, 0.968881}}}}};

/// CIE 1976 L*a*b* of linear light (D65).
Rgb lab_of(const Rgb& light) {
  const auto root = [](double value) {
    return value > 0.008856 ? std::cbrt(value) : 7.787 * value + 16.0 / 116;
  };
  const double x = root((0.4124 * light[0] + 0.3576 * light[1] + 0.1805 * light[2]) / 0.9505);
  const double y = root(0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2]);
  const double z = root((0.0193 * light[0] + 0.1192 * light[1] + 0.9505 * light[2]) / 1.089);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double distance(const char* left, const char* right, const std::array<Rgb, 3>& eye) {
  const auto seen = [&eye](const char* color) {
    const Rgb light = light_of(color);
    Rgb out{};
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) out[i] += eye[i][j] * light[j];
      out[i] = std::max(out[i], 0.0);
    }
    return lab_of(out);
  };
  const Rgb a = seen(left);
  const Rgb b = seen(right);
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

TEST_CASE("every two colours are told apart, by every eye, on light and on dark", "[report]") {
  constexpr double kApart = 14;  // a distance of 2.3 is just noticed
  for (const auto& eye : kEyes) {
    for (std::size_t i = 0; i < kHues; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        INFO(kPalette[i].light << " and " << kPalette[j].light);
        CHECK(distance(kPalette[i].light, kPalette[j].light, eye) > kApart);
        INFO(kPalette[i].dark << " and " << kPalette[j].dark);
        CHECK(distance(kPalette[i].dark, kPalette[j].dark, eye) > kApart);
      }
    }
  }
}

}  // namespace
}  // namespace memest
