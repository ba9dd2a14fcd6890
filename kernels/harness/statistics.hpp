// The median of samples and how well it is known.
#pragma once

#include <span>

namespace memest::kernels {

struct MedianEstimate {
  double median = 0;
  double low = 0;   ///< 95 % interval of the median of what the samples were drawn from
  double high = 0;  ///< likewise

  /// Half the interval over the median.
  [[nodiscard]] double relative_error() const { return (high - low) / (2 * median); }
};

/// Order statistics: the median lies under the l-th smallest of n samples with the probability that
/// a coin falls heads fewer than l times in n. No distribution is assumed, and an outlier moves
/// nothing. Under six samples no such interval has 95 %, and the whole range is given. `samples` is
/// not empty.
MedianEstimate estimate_median(std::span<const double> samples);

}  // namespace memest::kernels
