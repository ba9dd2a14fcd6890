// The lines that predictions are held to: how far from recorded runs they may be, and which rows
// are known to miss. A known miss that no longer misses breaks a line too, so that the list stays
// true.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/observables.hpp"

namespace memest {

/// Holds the rows of one metric. Shares are of the measured value: 0.002 for `0.2 %`.
struct AccuracyLine {
  Metric metric = Metric::allocated_peak_bytes;
  std::optional<double> median;   ///< of all rows of a group, known misses included
  std::optional<double> maximum;  ///< of each row that is no known miss
  bool equal = false;             ///< each row that is no known miss is equal to what was measured
  std::int64_t least_rows = 0;    ///< so many rows are compared, over all groups
  SourceSpan span;
};

/// A row that is past its line for a reason that is known.
struct KnownMiss {
  std::string id;
  Metric metric = Metric::allocated_peak_bytes;
  std::string reason;
  std::optional<double> ceiling;  ///< the row may be so far off, and no farther; none: any distance
  SourceSpan span;
};

/// A group whose median is past its line for a reason that is known.
struct KnownGroupMiss {
  std::string group;
  Metric metric = Metric::allocated_peak_bytes;
  std::string reason;
  double ceiling = 0;
  SourceSpan span;
};

/// A metric that has rows which were measured and are not predicted.
struct NotPredicted {
  Metric metric = Metric::allocated_peak_bytes;
  std::string reason;
  SourceSpan span;
};

struct AccuracyLines {
  std::vector<AccuracyLine> lines;
  std::vector<KnownMiss> misses;
  std::vector<KnownGroupMiss> group_misses;
  std::vector<NotPredicted> not_predicted;
};

}  // namespace memest
