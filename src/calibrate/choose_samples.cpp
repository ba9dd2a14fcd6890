#include "calibrate/choose_samples.hpp"

#include <algorithm>
#include <limits>

namespace memest {
namespace {

double squared_distance(const SampleFeatures& left, const SampleFeatures& right) {
  double sum = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    sum += (left[i] - right[i]) * (left[i] - right[i]);
  }
  return sum;
}

SampleFeatures middle_of(const std::vector<SampleFeatures>& samples) {
  SampleFeatures middle{};
  for (const SampleFeatures& sample : samples) {
    for (std::size_t i = 0; i < middle.size(); ++i) {
      middle[i] += sample[i] / static_cast<double>(samples.size());
    }
  }
  return middle;
}

}  // namespace

std::vector<std::size_t> choose_spread(const std::vector<SampleFeatures>& samples,
                                       std::size_t count) {
  std::vector<std::size_t> chosen;
  if (samples.empty() || count == 0) return chosen;
  const SampleFeatures middle = middle_of(samples);
  const auto nearest = std::min_element(
      samples.begin(), samples.end(), [&](const SampleFeatures& left, const SampleFeatures& right) {
        return squared_distance(left, middle) < squared_distance(right, middle);
      });
  // Farthest-point sampling: from the middle on, always the sample that is farthest from all chosen
  // ones. The first n of a longer choice are the choice of n.
  chosen.push_back(static_cast<std::size_t>(nearest - samples.begin()));
  std::vector<double> distance(samples.size(), std::numeric_limits<double>::infinity());
  while (chosen.size() < std::min(count, samples.size())) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      distance[i] = std::min(distance[i], squared_distance(samples[i], samples[chosen.back()]));
    }
    const auto farthest = std::max_element(distance.begin(), distance.end());
    if (*farthest <= 0) break;  // only repetitions are left
    chosen.push_back(static_cast<std::size_t>(farthest - distance.begin()));
  }
  return chosen;
}

}  // namespace memest
