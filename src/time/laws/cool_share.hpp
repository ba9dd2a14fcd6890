// How the limit of power that products run into depends on what else a step does.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "memest/spec/gpu/gpu.hpp"

namespace memest {

/// Products' share of the time of a step's kernels up to which they run as fast as in bursts; from
/// there on the limit of power lowers the clock. Nothing where nobody measured it.
inline std::optional<double> cool_share_of(const GpuSpec& gpu) {
  struct Row {
    std::string_view slug;
    double share;
  };
  // 700 W, 41 jobs (docs/calibration.md, An H200, measured).
  constexpr std::array kRows = {Row{"h200-sxm-141gb", 0.5}};
  const auto* const row = std::ranges::find(kRows, gpu.slug, &Row::slug);
  return row == kRows.end() ? std::nullopt : std::optional(row->share);
}

}  // namespace memest
