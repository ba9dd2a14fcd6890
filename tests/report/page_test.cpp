#include "memest/report/page.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>

#include "memest/report/display.hpp"

namespace memest {
namespace {

Page example() {
  Table table{{{"GPU"}, {"peak, GiB", Align::right}, {"step"}}, {}};
  table.rows.push_back({{"h100", "66.0 ± 0.8", "9.98 s"}, "▸", Tone::good});
  table.rows.push_back({{"l40s", "needs 7.4 GiB more: gradients 16.0"}, "✗", Tone::bad});
  return {{Heading{"Plans"}, table, Paragraph{"2·Φ + 12·Φ/D", Tone::plain}}};
}

TEST_CASE("a table aligns its columns, and the last cell of a short row takes the rest") {
  CHECK(text_of(example(), {}) ==
        "Plans\n"
        "   GPU    peak, GiB  step\n"
        " ▸ h100  66.0 ± 0.8  9.98 s\n"
        " ✗ l40s  needs 7.4 GiB more: gradients 16.0\n"
        "\n"
        "2·Φ + 12·Φ/D\n");
}

TEST_CASE("a figure keeps its blanks: in markdown as code, without UTF-8 sign by sign") {
  const Page page{{Figure{[](std::size_t) { return std::vector<std::string>{"│ ▂█░", "└────"}; }}}};
  RenderOptions ascii;
  ascii.unicode = false;
  CHECK(text_of(page, {}) == "│ ▂█░\n└────\n");
  CHECK(text_of(page, ascii) == "| _#.\n+----\n");
  CHECK(markdown_of(page) == "```\n│ ▂█░\n└────\n```\n");
}

TEST_CASE("without UTF-8 the same page is ASCII and still aligned") {
  RenderOptions ascii;
  ascii.unicode = false;
  const std::string text = text_of(example(), ascii);
  CHECK(text ==
        "Plans\n"
        "   GPU      peak, GiB  step\n"
        " > h100  66.0 +/- 0.8  9.98 s\n"
        " x l40s  needs 7.4 GiB more: gradients 16.0\n"
        "\n"
        "2*Phi + 12*Phi/D\n");
}

TEST_CASE("markdown keeps the table and escapes what would mean something") {
  Page page = example();
  std::get<Table>(page.parts[1]).rows.push_back({{"a|b", "1*2", "<x>"}, "", Tone::plain});
  CHECK(markdown_of(page) ==
        "## Plans\n"
        "\n"
        "| GPU | peak, GiB | step |\n"
        "| --- | ---: | --- |\n"
        "| ▸ h100 | 66.0 ± 0.8 | 9.98 s |\n"
        "| ✗ l40s | needs 7.4 GiB more: gradients 16.0 |  |\n"
        "| a\\|b | 1\\*2 | \\<x> |\n"
        "\n"
        "2·Φ + 12·Φ/D\n");
}

TEST_CASE("CSV quotes commas, quotes and line breaks, and nothing else") {
  const Table table{{{"name"}, {"formula"}},
                    {{{"a,b", "2·Φ"}, "", {}}, {{"say \"x\"", "1\n2"}, "", {}}}};
  CHECK(csv_of(table) == "name,formula\n\"a,b\",2·Φ\n\"say \"\"x\"\"\",\"1\n2\"\n");
}

TEST_CASE("no line is wider than the page, whatever the cells hold") {
  const std::string formula = "s·b·h·(34 + 5·a·s/h)·123456789·123456789·123456789·123456789";
  for (const std::size_t columns : {60U, 80U, 100U}) {
    RenderOptions options;
    options.columns = columns;
    Table table{{{"term"}, {"bytes", Align::right}, {"formula"}, {"source"}}, {}};
    table.rows.push_back(
        {{std::string(50, 'n'), "12,345", formula, formula + " " + formula}, "▸", {}});
    table.rows.push_back({{"x", formula + formula + formula + formula}, "", {}});
    const Page page{
        {Heading{formula + formula + formula}, table, Paragraph{formula + formula, {}}}};
    std::istringstream lines(text_of(page, options));
    for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= columns);
  }
}

TEST_CASE("breaking into lines loses nothing but the spaces at the breaks") {
  const std::string text =
      "alpha beta gamma·delta·epsilon zeta/eta verylongwordwithoutanybreak end";
  for (std::size_t columns = 1; columns < 90; ++columns) {
    std::string joined;
    for (const std::string& line : lines_of(text, {columns, 0, true})) {
      CHECK(display_width(line) <= columns);
      joined += line;
    }
    std::string expected = text;
    std::erase(expected, ' ');
    std::erase(joined, ' ');
    CHECK(joined == expected);
  }
}

}  // namespace
TEST_CASE("a narrow screen gets fewer columns, said so, instead of broken words") {
  Table table{{{"GPUs"},
               {"ZeRO"},
               {"peak", Align::right},
               {"at most", Align::right},
               {"of GiB", Align::right},
               {"step", Align::right},
               {"tokens/s", Align::right},
               {"MFU", Align::right},
               {"USD/B tok", Align::right}},
              {{{"8 × rtx-pro-6000-server", "3+ow", "65.0", "92.3", "94.6", "137 s", "30.6 k",
                 "39 %", "138"},
                "",
                {}}}};
  const Page page{{table, Paragraph{"Why:\nmemest explain llama-3-8b --gpus 8 --set "
                                    "training.recompute=none --set 'parallelism={data: 2}'"}}};
  const auto shown = [&page](std::size_t columns) {
    RenderOptions options;
    options.columns = columns;
    return text_of(page, options);
  };
  CHECK(shown(100).find("Left out") == std::string::npos);
  const std::string narrow = shown(60);
  CHECK(narrow.find("Left out at this width: MFU, tokens/s") != std::string::npos);
  CHECK(narrow.find("8 × rtx-pro-6000-server") != std::string::npos);
  CHECK(narrow.find("137 s") != std::string::npos);
  CHECK(narrow.find("memest explain llama-3-8b --gpus 8 \\\n    --set training.recompute=none") !=
        std::string::npos);
  CHECK(narrow.find("'parallelism={data: 2}'") != std::string::npos);
}

}  // namespace memest
