// The work of a step below the roof of its GPU.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "memest/report/chart.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/recorded_time.hpp"
#include "memest/time/step_time.hpp"

namespace memest {

/// A datasheet's bandwidth and peak.
struct Roof {
  double bandwidth = 0;
  double peak = 0;

  /// FLOP/s at so many FLOPs a byte.
  [[nodiscard]] double at(double intensity) const;
  /// FLOPs a byte at which both are the limit.
  [[nodiscard]] double ridge() const { return peak / bandwidth; }
};

/// The work of one name in a step, all calls together.
struct RoofedWork {
  std::string name;
  std::string_view kind;   ///< "contraction", "products"
  std::size_t series = 0;  ///< the kind's place among the kinds
  Hue hue = Hue::grey;
  std::string_view bound;  ///< "compute", "memory"
  double flops = 0;
  double bytes = 0;
  Seconds seconds;
};

/// A step's work that reads or writes device memory, so no message, longest first.
struct Roofline {
  Roof roof;
  Seconds step;
  std::vector<RoofedWork> work;
};

/// The steps that a framework writes one operation as are one again, but for the products among
/// them.
Roofline roofline_of(const Job& job, const TimeEstimate& time);
/// By operator. `time.peak` and the GPU's bandwidth are known.
Roofline roofline_of(const GpuSpec& gpu, const RecordedTime& time);

/// Share of its roof that work reaches; of the bandwidth where it counts no FLOPs.
double share_of_roof(const RoofedWork& work, const Roof& roof);

/// "312 TFLOP/s", or where it counts no FLOPs "1.2 TB/s".
std::string reached_text(const RoofedWork& work);

/// All work, that without FLOPs in a column of its own: as far below the roof there as it is below
/// the bandwidth.
Chart roofline_chart(Roofline roofline);

}  // namespace memest
