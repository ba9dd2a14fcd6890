// Lines of a few sizes become one with formulas, or the first is named in which they part.
#include "memest/memory/recorded/fit_lines.hpp"

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>
#include <variant>

#include "memest/memory/recorded/fit_family.hpp"

namespace memest {
namespace {

const std::vector<VariedSize> kSizes{{"batch", {2, 3, 5}}, {"seq", {512, 640, 896}}};

using Lines = std::function<std::vector<std::string>(std::int64_t, std::int64_t)>;

std::variant<VariedWork, PartedLines> fitted(const Lines& lines) {
  const RecordedPoints points = points_of(kSizes);
  std::vector<LinesAt> recorded;
  for (const SizePoint& point : points.fitted)
    recorded.push_back({point, lines(point[0], point[1])});
  recorded.push_back({points.held_out, lines(points.held_out[0], points.held_out[1])});
  return fit_lines(recorded);
}

std::string text(std::int64_t number) { return std::to_string(number); }

TEST_CASE("whole numbers of a line have formulas, names and other numbers do not") {
  const auto lines = [](std::int64_t b, std::int64_t s) {
    return std::vector<std::string>{"w = step2.forward",
                                    "w o 1 aten::conv2d bf16[" + text(b * s) + ",:" + text(s / 8) +
                                        "] {" + text(2 * b) + "*fp32[64];1*fp32[]} 0." + text(b) +
                                        " > bf16[" + text(b) + "]",
                                    "w g 0 0 1 " + text(b * s + 7)};
  };
  const auto fit = fitted(lines);
  const auto& work = std::get<VariedWork>(fit);
  REQUIRE(work.lines.size() == 3);
  CHECK(work.lines[0] == VariedLine{{"w = step2.forward"}, {}});
  CHECK(work.lines[1].formulas.size() == 4);
  CHECK(work.formulas.size() == 5);  // each once
  // At sizes that nobody recorded the lines are those of the program, but for the fraction.
  std::vector<std::string> expected = lines(7, 4096);
  expected[1].replace(expected[1].find("0.7"), 3, "-");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(line_at(work.lines[i], work, {7, 4096}) == expected[i]);
  }
}

TEST_CASE("a number below zero is no size") {
  const auto fit = fitted([](std::int64_t b, std::int64_t s) {
    return std::vector<std::string>{"w m " + text(b * s - 600)};
  });
  const auto& work = std::get<VariedWork>(fit);
  CHECK(line_at(work.lines[0], work, {2, 512}) == "w m 424");
  CHECK_FALSE(line_at(work.lines[0], work, {1, 512}).has_value());
}

TEST_CASE("lines part where a word, their number or the held-out point has another") {
  const auto parted = [](const Lines& lines) { return std::get<PartedLines>(fitted(lines)); };
  const PartedLines name = parted([](std::int64_t b, std::int64_t) {
    return std::vector<std::string>{"w c " + std::string(b == 5 ? "broadcast" : "all_reduce")};
  });
  CHECK(name.first == "w c all_reduce");
  CHECK(name.other == "w c broadcast");
  CHECK(name.point == SizePoint{5, 512});
  const PartedLines count = parted([](std::int64_t, std::int64_t s) {
    std::vector<std::string> lines{"w a", "w c"};
    if (s == 896) lines.insert(lines.begin() + 1, "w b 8");
    return lines;
  });
  CHECK(count.first == "w c");
  CHECK(count.other == "w b 8");
  const PartedLines jagged = parted([](std::int64_t b, std::int64_t s) {
    return std::vector<std::string>{"w m x[" + text(std::int64_t{1} << (b + s / 128)) + "]"};
  });
  CHECK(jagged.first == "w m x[64]");
  // A number that decides what waits for what is no argument that may be left open.
  const PartedLines event = parted([](std::int64_t b, std::int64_t s) {
    return std::vector<std::string>{"w e " + text(std::int64_t{1} << (b + s / 128)) + " 0"};
  });
  CHECK(event.first == "w e 64 0");
  const PartedLines held_out = parted([](std::int64_t b, std::int64_t s) {
    return std::vector<std::string>{"w m " + text(b * s + (b == 3 && s == 640 ? 8 : 0))};
  });
  CHECK(held_out.point == SizePoint{3, 640});
  CHECK(held_out.first == "w m 1920");
  CHECK(held_out.other == "w m 1928");
}

}  // namespace
}  // namespace memest
