// The one table of colours: ten that people of every colour vision tell apart, for light paper and
// for a dark screen.
#pragma once

#include <array>

#include "memest/report/chart.hpp"

namespace memest {

struct HueColors {
  const char* light;
  const char* dark;
};

/// By Hue. Light: Paul Tol's scheme "muted" (personal.sron.nl/~pault), its pale grey darker; dark:
/// the same hues, those that a dark ground would swallow lightened.
inline constexpr std::array<HueColors, kHues> kPalette = {{{"#332288", "#8577d6"},
                                                           {"#cc6677", "#d9788a"},
                                                           {"#44aa99", "#4fb9a7"},
                                                           {"#ddcc77", "#ddcc77"},
                                                           {"#88ccee", "#88ccee"},
                                                           {"#aa4499", "#c465b4"},
                                                           {"#117733", "#3b9f5c"},
                                                           {"#882255", "#b2467d"},
                                                           {"#999933", "#a9a942"},
                                                           {"#c4c8cc", "#4d535b"}}};

constexpr const HueColors& colors_of(Hue hue) { return kPalette[static_cast<std::size_t>(hue)]; }

}  // namespace memest
