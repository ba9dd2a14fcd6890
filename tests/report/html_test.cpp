#include "memest/report/html.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "../page_data.hpp"
#include "report/html/html_page.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

const std::string kLibrary = "/* the library */";

Chart marks_chart() {
  return {"Marks <b>.", "How it is read.", [] {
            MarkChart chart;
            chart.x = axis_over("x", {.write = [](double) { return std::string("tick"); }}, {0, 4});
            chart.y = chart.x;
            chart.series.push_back(
                {.name = "</script><i>", .marks = {{.x = 3, .y = 1.25, .name = "</script>"}}});
            return chart;
          }};
}

Report report() {
  Report made;
  made.page.parts = {Heading{"A <title>"},
                     Paragraph{"Why:\nmemest explain 'a<b' \\\n    --set x=1"}, marks_chart(),
                     Heading{"More"},
                     Table{{{"name"}, {"number", Align::right}},
                           {{{"<img src=x onerror=alert(1)>", "1"}, "✗", Tone::bad}}}};
  made.headlines = {{"Verdict", "Fits & <well>", Tone::good}};
  return made;
}

TEST_CASE("nothing that a spec says is markup", "[report]") {
  const PageOrigin origin{
      .command = "memest x '<u>'", .version = "1", .specs = {{"<s>.yaml", "name: <q>\nb: &c 1\n"}}};
  for (const std::string& library : {std::string(), kLibrary}) {
    const std::string page = html_with(report(), origin, library);
    for (const char* markup : {"<img", "<i>", "<b>", "<u>", "<s>", "<q>", "<well>", "<title>A <"}) {
      CHECK_THAT(page, !ContainsSubstring(markup));
    }
    CHECK_THAT(page, ContainsSubstring("<h1>A &lt;title&gt;</h1>"));
    CHECK_THAT(page, ContainsSubstring("name: &lt;q&gt;\nb: &amp;c 1\n"));
    CHECK_THAT(page, ContainsSubstring("default-src 'none'"));
  }
}

TEST_CASE("a page has its headlines below its title, its command in one block, its tables",
          "[report]") {
  const std::string page = html_with(report(), {}, kLibrary);
  CHECK(page.find("</h1>") < page.find("Fits &amp; &lt;well&gt;"));
  CHECK_THAT(page, ContainsSubstring("<pre class=\"plain\">memest explain 'a&lt;b' \\\n"));
  CHECK_THAT(page, ContainsSubstring("<h2>More</h2>"));
  CHECK_THAT(page, ContainsSubstring("<th scope=\"col\" class=\"right\">number</th>"));
}

TEST_CASE("marks stand in the data as the answer has them", "[report]") {
  const json data = data_in(html_with(report(), {}, kLibrary));
  const json& mark = data["charts"][0]["series"][0]["marks"][0];
  CHECK(mark[0] == 3);
  CHECK(mark[1] == 1.25);
  CHECK(mark[3] == "</script>");
  CHECK(data["palette"]["light"].size() == kHues);
}

TEST_CASE("with the library charts are its own, without it drawings are still ones", "[report]") {
  const std::string with = html_with(report(), {}, kLibrary);
  CHECK_THAT(with, ContainsSubstring("<script>" + kLibrary + "</script>"));
  CHECK_THAT(with, !ContainsSubstring("<svg"));
  CHECK_THAT(with, ContainsSubstring("aria-label=\"Marks &lt;b&gt;. How it is read.\""));
  const std::string without = html_with(report(), {}, "");
  CHECK_THAT(without, ContainsSubstring("<svg"));
  CHECK_THAT(without, ContainsSubstring("Charts were not built into this memest"));
  CHECK(data_in(without)["charts"].empty());
}

TEST_CASE("a figure behind a chart stands in where the chart is not drawn", "[report]") {
  Report drawn;
  drawn.page.parts = {Heading{"Course"},
                      Chart{"Course.", "",
                            [] {
                              CourseChart chart;
                              chart.events = {0};
                              return chart;
                            }},
                      Figure{[](std::size_t) { return std::vector<std::string>{"▁▂<"}; }}};
  CHECK_THAT(html_with(drawn, {}, kLibrary), !ContainsSubstring("▁▂"));
  const std::string without = html_with(drawn, {}, "");
  CHECK_THAT(without, ContainsSubstring("▁▂&lt;"));
  CHECK_THAT(without, !ContainsSubstring("<figure"));
}

TEST_CASE("a chart without anything to draw is left out", "[report]") {
  Report drawn;
  drawn.page.parts = {Heading{"None"}, Chart{"Marks.", "", [] { return MarkChart{}; }},
                      Chart{"Areas.", "", [] { return AreaChart{}; }}};
  CHECK_THAT(html_with(drawn, {}, kLibrary), !ContainsSubstring("<figure"));
}

TEST_CASE("a report that knows nothing of charts has a page", "[report]") {
  const Report plain{Page{{Heading{"Plain"}, Paragraph{"Text."}}}, {}, ""};
  CHECK_THAT(html_of(plain, {}), ContainsSubstring("<p class=\"plain\">Text.</p>"));
}

}  // namespace
}  // namespace memest
