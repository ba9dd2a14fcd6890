// The few shapes that the drawings of report are made of.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace memest {

/// Okabe and Ito's colours, which people of every colour vision tell apart.
inline constexpr std::array kSvgColors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                          "#E69F00", "#56B4E9", "#F0E442", "#000000"};

/// `body` as one drawing of that many pixels, on white.
std::string svg_of(double width, double height, std::string_view body);

/// From {x, y} to {x, y}.
std::string svg_line(std::array<double, 4> ends, std::string_view color);

/// `anchor`: "start", "middle" or "end".
std::string svg_text(double x, double y, std::string_view anchor, const std::string& text);

}  // namespace memest
