// Charts as the page's script reads them.
#pragma once

#include "memest/report/chart.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// `{"form": "marks" | "areas" | "course", ...}`, with the numbers of the answer as they are.
Json json_of(const Drawing& drawing);

/// Colours by hue, for light and for dark.
Json palette_json();

}  // namespace memest
