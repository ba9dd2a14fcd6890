#include "calibrate/choose_samples.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <vector>

namespace memest {
namespace {

std::vector<SampleFeatures> square(int side) {
  std::vector<SampleFeatures> samples;
  for (int x = 0; x < side; ++x) {
    for (int y = 0; y < side; ++y) {
      samples.push_back({static_cast<double>(x), static_cast<double>(y), 0, 0, 0});
    }
  }
  return samples;
}

TEST_CASE("of a square the middle comes first and then its corners", "[calibrate]") {
  const std::vector<std::size_t> chosen = choose_spread(square(11), 5);
  REQUIRE(chosen.size() == 5);
  CHECK(chosen.front() == 5 * 11 + 5);
  const std::set<std::size_t> corners(chosen.begin() + 1, chosen.end());
  CHECK(corners == std::set<std::size_t>{0, 10, 110, 120});
}

TEST_CASE("no sample is chosen twice, and no repetition of one", "[calibrate]") {
  std::vector<SampleFeatures> samples = square(4);
  const std::vector<SampleFeatures> again = square(4);
  samples.insert(samples.end(), again.begin(), again.end());
  const std::vector<std::size_t> chosen = choose_spread(samples, samples.size());
  CHECK(std::set<std::size_t>(chosen.begin(), chosen.end()).size() == chosen.size());
  CHECK(chosen.size() == 16);
}

TEST_CASE("nothing is chosen of nothing", "[calibrate]") {
  CHECK(choose_spread({}, 3).empty());
  CHECK(choose_spread(square(2), 0).empty());
}

}  // namespace
}  // namespace memest
