#include "kernels/harness/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "memest/diag/expect.hpp"

namespace memest::kernels {
namespace {

constexpr double kOutside = 0.05;  // of the interval, both sides together

/// P(Binomial(n, 1/2) = heads), by logarithms: 2^-n is no double from n = 1075 on.
double probability(double heads, double n) {
  return std::exp(std::lgamma(n + 1) - std::lgamma(heads + 1) - std::lgamma(n - heads + 1) -
                  n * std::numbers::ln2);
}

/// How many samples on each side lie outside of the interval.
std::size_t outside_each_side(std::size_t samples) {
  const double n = static_cast<double>(samples);
  // Each sample lies below the median with probability 1/2, whatever its distribution: the second
  // and the eighth of 9 samples enclose it with 96 %, the first and the last of 6 with 97 %.
  double below = probability(0, n);
  std::size_t count = 0;
  while (2 * below <= kOutside) {
    ++count;
    below += probability(static_cast<double>(count), n);
  }
  return count == 0 ? 0 : count - 1;
}

}  // namespace

MedianEstimate estimate_median(std::span<const double> samples) {
  expect(!samples.empty(), "a median is asked of at least one sample");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const std::size_t skipped = outside_each_side(n);
  return {.median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2,
          .low = sorted[skipped],
          .high = sorted[n - 1 - skipped]};
}

}  // namespace memest::kernels
