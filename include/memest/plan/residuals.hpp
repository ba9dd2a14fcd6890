// Turns recorded runs into the margins of an estimate.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memest/plan/layout_order.hpp"
#include "memest/plan/validation.hpp"
#include "memest/spec/gpu/margin.hpp"

namespace memest {

/// A margin over all runs that keep everything, one over all that recompute, and one of each
/// implementation that has records enough for quantiles of its own. `low` is the largest share by
/// which an allocated peak lay below its prediction, `high` the 90th percentile of what was
/// reserved over the predicted allocated peak: segments of whole MiB and the holes between blocks.
/// Both are rounded up to two significant digits, or to a hundredth of a percent.
std::vector<Margin> margins_of(const std::vector<ValidatedRun>& runs);

/// A figure of a whole run, reported with an interval. The allocator's bytes are reserved ones, or
/// allocated ones in runs that publish only those; the device's bytes fall back to either.
enum class ToldFigure : std::uint8_t { step, reserved, device };
inline constexpr std::array kToldFigures = {ToldFigure::step, ToldFigure::reserved,
                                            ToldFigure::device};
/// "step", "reserved", "device".
std::string_view name_of(ToldFigure figure);

/// The trait by which runs are left out together.
enum class SourceKind : std::uint8_t { framework, gpu, year };
inline constexpr std::array kSourceKinds = {SourceKind::framework, SourceKind::gpu,
                                            SourceKind::year};
/// "framework", "GPU", "year".
std::string_view name_of(SourceKind kind);

/// Every source of a kind left out in turn, its runs held to the interval that the others make.
/// Sources without which no run is left do not count.
struct Coverage {
  SourceKind kind = SourceKind::framework;
  int sources = 0;
  int runs = 0;
  int within = 0;

  /// Share of the runs; 0 of none.
  [[nodiscard]] double held() const;
};

/// An interval made of runs that others published.
struct ToldInterval {
  ToldFigure figure = ToldFigure::step;
  SourceMargin margin;
  std::array<Coverage, kSourceKinds.size()> coverages;  ///< by kind
};

/// For each figure that runs with a source have: quantiles of measured over expected, as many runs
/// beyond either end, the narrowest of which sources left out find 80 % of their runs inside; at
/// most 99 % of the runs lie between them.
std::vector<ToldInterval> told_intervals(const std::vector<ValidatedRun>& runs);

/// Returns the intervals as an estimate asks for them, with how well layouts are ranked; a figure
/// without an interval has zero runs.
SourceMargins source_margins_of(const std::vector<ToldInterval>& intervals,
                                const std::vector<RankedCell>& cells);

}  // namespace memest
