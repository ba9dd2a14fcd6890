// The operations of a step below the roof of their GPU.
#pragma once

#include <string>
#include <vector>

#include "memest/report/chart.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/step_time.hpp"

namespace memest {

/// A datasheet's bandwidth and peak.
struct Roof {
  double bandwidth = 0;
  double peak = 0;

  /// FLOP/s at so many FLOPs a byte.
  [[nodiscard]] double at(double intensity) const;
};

Roof roof_of(const Job& job, const TimeEstimate& time);

/// Share of its roof that an operation reaches; of the bandwidth where it counts no FLOPs.
double share_of_roof(const OpTime& op, const Roof& roof);

/// "312 TFLOP/s", or where it counts no FLOPs "1.2 TB/s".
std::string reached_text(const OpTime& op);

std::string name_of(const OpTime& op);

/// Those that read or write device memory, so no collective, longest first. The steps that a
/// framework writes one operation as are one again, but for the products among them.
std::vector<OpTime> kernels_of(const TimeEstimate& time);

/// Every operation, those without FLOPs in a column of their own: as far below the roof there as
/// they are below the bandwidth. Job and time outlive the chart.
Chart roofline_chart(const Job& job, const TimeEstimate& time);

}  // namespace memest
