#include "kernels/harness/statistics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>
#include <vector>

using memest::kernels::estimate_median;
using memest::kernels::MedianEstimate;

TEST_CASE("the median of an odd and of an even number of samples") {
  CHECK(estimate_median(std::vector{3.0, 1.0, 2.0}).median == 2);
  CHECK(estimate_median(std::vector{4.0, 1.0, 2.0, 3.0}).median == 2.5);
}

TEST_CASE("under six samples the interval is the whole range") {
  const MedianEstimate five = estimate_median(std::vector{5.0, 4.0, 3.0, 2.0, 1.0});
  CHECK(five.low == 1);
  CHECK(five.high == 5);
  const MedianEstimate one = estimate_median(std::vector{7.0});
  CHECK(one.relative_error() == 0);
}

TEST_CASE("the ranks of the interval are those of published tables") {
  // Conover, Practical Nonparametric Statistics, 3rd edition: of 10 samples the 2nd and the 9th
  // (97.9 %), of 20 the 6th and the 15th (95.9 %), of 100 the 40th and the 61st (96.5 %).
  const auto ranks = [](int count) {
    std::vector<double> samples;
    for (int i = 1; i <= count; ++i) samples.push_back(i);
    const MedianEstimate estimate = estimate_median(samples);
    return std::pair{static_cast<int>(estimate.low), static_cast<int>(estimate.high)};
  };
  CHECK(ranks(10) == std::pair{2, 9});
  CHECK(ranks(20) == std::pair{6, 15});
  CHECK(ranks(100) == std::pair{40, 61});
  CHECK(ranks(3000) == std::pair{1446, 1555});  // exact; 2^-3000 is no double
}

TEST_CASE("the interval covers the true median in at least 95 of 100 sets of samples") {
  std::mt19937_64 generator(20261121);
  const int sets = 4000;
  for (const double skew : {0.05, 1.0}) {  // times are log-normal: a floor and a tail
    std::lognormal_distribution<double> time(0, skew);
    for (const int count : {10, 15, 40}) {
      int covered = 0;
      for (int set = 0; set < sets; ++set) {
        std::vector<double> samples;
        for (int i = 0; i < count; ++i) samples.push_back(time(generator));
        const MedianEstimate estimate = estimate_median(samples);
        covered += estimate.low <= 1 && 1 <= estimate.high ? 1 : 0;
      }
      // Three standard deviations of a count whose probability is 0.95.
      CHECK(covered >= sets * 0.95 - 3 * std::sqrt(sets * 0.95 * 0.05));
    }
  }
}
