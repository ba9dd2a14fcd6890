// The few shapes that the drawings of report are made of.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace memest {

/// `body` as one drawing of that many pixels, on white.
std::string svg_of(double width, double height, std::string_view body);

/// From {x, y} to {x, y}.
std::string svg_line(std::array<double, 4> ends, std::string_view color);

/// `anchor`: "start", "middle" or "end".
std::string svg_text(double x, double y, std::string_view anchor, const std::string& text);

}  // namespace memest
