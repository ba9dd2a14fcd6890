#include "report/pages/svg.hpp"

#include <fmt/format.h>

#include "report/pages/replaced.hpp"

namespace memest {

std::string svg_of(double width, double height, std::string_view body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
      width, height, body);
}

std::string svg_line(std::array<double, 4> ends, std::string_view color) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", ends[0],
      ends[1], ends[2], ends[3], color);
}

std::string svg_text(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     xml(text));
}

}  // namespace memest
