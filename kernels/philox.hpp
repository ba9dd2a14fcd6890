// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011): four random words from a counter and a key, with no state between calls. Runs
// on device and host alike.
#pragma once

#include <cstdint>

namespace memest::kernels {

struct PhiloxWords {
  std::uint32_t at[4];
};

constexpr PhiloxWords philox(PhiloxWords counter, std::uint32_t key_low, std::uint32_t key_high) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter.at[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter.at[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.at[1] ^ key_low,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.at[3] ^ key_high,
                static_cast<std::uint32_t>(product0)}};
    key_low += 0x9E3779B9;   // the golden ratio
    key_high += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

/// The four words of elements 4·index to 4·index + 3 of the stream `seed`.
constexpr PhiloxWords random_words(std::uint64_t index, std::uint64_t seed) {
  return philox(
      {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0}},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

/// In (0, 1): 23 bits, each value the middle of its interval, which a float holds exactly.
constexpr float unit_interval(std::uint32_t word) {
  return (static_cast<float>(word >> 9) + 0.5F) * (1.0F / 8388608.0F);
}

}  // namespace memest::kernels
