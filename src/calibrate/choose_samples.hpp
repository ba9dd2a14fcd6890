// Which of many samples a law is fitted to: few, and as different from one another as they come.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace memest {

/// Logarithms of a sample's sizes and of its time; unused ones are zero.
using SampleFeatures = std::array<double, 5>;

/// Indices of at most `count` of the samples: first the one nearest to the middle, then always the
/// one that is farthest from all chosen before. Equal samples give equal choices.
std::vector<std::size_t> choose_spread(const std::vector<SampleFeatures>& samples,
                                       std::size_t count);

}  // namespace memest
