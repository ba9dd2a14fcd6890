#include "memest/report/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/report/display.hpp"
#include "report/html/assets.hpp"
#include "report/html/chart_json.hpp"
#include "report/html/html_page.hpp"
#include "report/html/packed.hpp"
#include "report/pages/replaced.hpp"

namespace memest {
namespace {

constexpr std::string_view kNoLibrary =
    "Charts were not built into this memest, so drawings are still ones. MEMEST_ECHARTS names the "
    "file of Apache ECharts to a build (docs/pages.md).";

// Nothing may be loaded, from anywhere: style and script stand in the page.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'";

std::string_view class_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "plain";
    case Tone::strong:
      return "strong";
    case Tone::faint:
      return "faint";
    case Tone::good:
      return "good";
    case Tone::bad:
      return "bad";
    case Tone::uncertain:
      return "uncertain";
  }
  unreachable("a tone beyond the enum");
}

std::string headlines_html(const std::vector<Headline>& headlines) {
  if (headlines.empty()) return "";
  std::string out = "<dl class=\"headlines\">\n";
  for (const Headline& line : headlines) {
    out += fmt::format("<div class=\"{}\"><dt>{}</dt><dd>{}</dd></div>\n", class_of(line.tone),
                       xml(line.name), xml(line.value));
  }
  return out + "</dl>\n";
}

bool is_empty(const Drawing& drawing) {
  if (const auto* marks = std::get_if<MarkChart>(&drawing)) {
    return std::ranges::all_of(marks->series,
                               [](const ChartSeries& series) { return series.marks.empty(); });
  }
  if (const auto* areas = std::get_if<AreaChart>(&drawing)) return areas->areas.empty();
  return std::get<CourseChart>(drawing).events.empty();
}

/// The parts of a page in their order.
class BodyWriter {
 public:
  BodyWriter(const Report& report, bool has_library)
      : headlines_(report.headlines), has_library_(has_library) {
    if (!report.title.empty()) add(Heading{report.title});
  }

  /// The first is the page's own, and the headlines stand below it.
  void add(const Heading& heading) {
    const bool first = named_.empty();
    named_ = heading.text;
    out_ += fmt::format("<h{0}>{1}</h{0}>\n", first ? 1 : 2, xml(heading.text));
    if (first) out_ += headlines_html(headlines_);
  }

  /// A line that begins with the program's name is a command.
  void add(const Paragraph& paragraph) {
    std::string_view text = paragraph.text;
    while (!text.empty()) {
      const bool command = text.starts_with(kCommand);
      const std::size_t end = command ? text.size() : next_command(text);
      const std::string shown = command ? kept(text) : broken(text.substr(0, end));
      out_ += fmt::format("<{0} class=\"{1}\">{2}</{0}>\n", command ? "pre" : "p",
                          class_of(paragraph.tone), shown);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  void add(const Table& table) {
    out_ += fmt::format(
        "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n",
        xml("table: " + named_));
    bool titled = false;
    for (const Column& column : table.columns) titled = titled || !column.title.empty();
    if (titled) add_titles(table);
    out_ += "<tbody>\n";
    for (const Row& row : table.rows) add(row, table.columns);
    out_ += "</tbody></table></div>\n";
  }

  void add(const Figure& figure) {
    if (after_chart_ && has_library_) return;
    out_ += "<pre class=\"figure\" role=\"img\" aria-label=\"drawing in signs\">";
    for (const std::string& line : figure.draw(kTextColumns)) out_ += xml(line) + '\n';
    out_ += "</pre>\n";
  }

  void add(const Chart& chart) {
    const Drawing drawing = chart.draw();
    if (is_empty(drawing)) return;
    const auto* marks = std::get_if<MarkChart>(&drawing);
    if (!has_library_ && marks == nullptr) return;  // its table or figure stands beside it
    out_ += fmt::format(
        "<figure class=\"chart\"><figcaption><strong>{0}</strong> {1}</figcaption>\n"
        "<div class=\"drawing\" role=\"img\" tabindex=\"0\" aria-label=\"{0} {1}\">{2}</div>\n"
        "<p class=\"reading\" aria-live=\"polite\"></p></figure>\n",
        xml(chart.name), xml(chart.reading), has_library_ ? "" : svg_of(*marks));
    if (has_library_) charts_.push_back(json_of(drawing));
  }

  /// Adds a part and remembers what it was.
  void add_part(const Part& part) {
    std::visit([this](const auto& shown) { add(shown); }, part);
    after_chart_ = std::holds_alternative<Chart>(part);
  }

  [[nodiscard]] const std::string& out() const { return out_; }
  [[nodiscard]] const Json& charts() const { return charts_; }

 private:
  static constexpr std::string_view kCommand = "memest ";

  static std::size_t next_command(std::string_view text) {
    const std::size_t at = text.find("\nmemest ");
    return at == std::string_view::npos ? text.size() : at;
  }
  static std::string kept(std::string_view text) {
    std::string out;
    for (bool first = true; first || !text.empty(); first = false) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      out += (first ? "" : "\n") + xml(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
  }
  static std::string broken(std::string_view text) {
    constexpr std::array kBreak = {Replacement{'\n', "<br>"}};
    return replaced(kept(text), kBreak);
  }

  void add_titles(const Table& table) {
    out_ += "<thead><tr><th></th>";
    for (const Column& column : table.columns) {
      out_ += fmt::format("<th scope=\"col\"{}>{}</th>", side_of(column), xml(column.title));
    }
    out_ += "</tr></thead>\n";
  }
  static std::string_view side_of(const Column& column) {
    return column.align == Align::right ? " class=\"right\"" : "";
  }
  /// Short texts stay in one line, however little room the others leave.
  static std::string_view cell_class(const Column& column, const std::string& text) {
    constexpr std::size_t kShort = 24;
    if (column.align == Align::right) return "right";
    return display_width(text) <= kShort ? "short" : "";
  }
  void add(const Row& row, const std::vector<Column>& columns) {
    out_ += fmt::format("<tr class=\"{}\"><td>{}</td>", class_of(row.tone), xml(row.marker));
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      // The last cell of a row with fewer takes the rest.
      const std::size_t span = i + 1 == row.cells.size() ? columns.size() - i : 1;
      const std::string over = span > 1 ? fmt::format(" colspan=\"{}\"", span) : "";
      out_ += fmt::format("<td{} class=\"{}\">{}</td>", over,
                          span > 1 ? "" : cell_class(columns[i], row.cells[i]), xml(row.cells[i]));
    }
    out_ += "</tr>\n";
  }

  const std::vector<Headline>& headlines_;
  bool has_library_;
  std::string out_;
  Json charts_ = Json::array();
  std::string named_;  ///< the last heading
  bool after_chart_ = false;
};

/// Text that keeps its lines.
std::string lines_html(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += xml(text.substr(0, end)) + '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string origin_html(const PageOrigin& origin, bool has_library) {
  std::string out = "<footer>\n";
  if (!origin.specs.empty()) out += "<h2>The spec</h2>\n";
  for (const GivenText& spec : origin.specs) {
    out += fmt::format("<details open><summary>{}</summary><pre>{}</pre></details>\n",
                       xml(spec.name), lines_html(spec.text));
  }
  if (!origin.command.empty()) {
    out += fmt::format("<p>Made by</p><pre>{}</pre>\n", xml(origin.command));
  }
  if (!origin.version.empty()) out += fmt::format("<p>memest {}</p>\n", xml(origin.version));
  if (!has_library) out += fmt::format("<p class=\"faint\">{}</p>\n", kNoLibrary);
  return out + "</footer>\n";
}

/// The script reads it. A timeline has many events, so that it is compressed; and no name can end
/// the element that it stands in.
std::string data_html(const Json& charts) {
  const Json data{{"palette", palette_json()}, {"charts", charts}};
  return "<script type=\"text/plain\" id=\"data\">" + packed(printed(data)) + "</script>\n";
}

std::string title_in(const Report& report) {
  if (!report.title.empty()) return report.title;
  for (const Part& part : report.page.parts) {
    if (const auto* heading = std::get_if<Heading>(&part)) return heading->text;
  }
  return "memest";
}

}  // namespace

std::string html_of(const Report& report, const PageOrigin& origin) {
  return html_with(report, origin, chart_library());
}

std::string html_with(const Report& report, const PageOrigin& origin, std::string_view library) {
  BodyWriter body(report, !library.empty());
  for (const Part& part : report.page.parts) body.add_part(part);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style></head><body>\n"
      "<button id=\"theme\" type=\"button\" hidden>Dark</button>\n<main>\n",
      kPolicy, xml(title_in(report)), kPageStyle);
  out +=
      body.out() + "</main>\n" + origin_html(origin, !library.empty()) + data_html(body.charts());
  if (!library.empty()) out += fmt::format("<script>{}</script>\n", library);
  return out + "<script>\n" + std::string(kPageScript) + "</script>\n</body></html>\n";
}

}  // namespace memest
