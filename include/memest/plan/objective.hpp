// The objectives of a search.
#pragma once

#include <cstdint>
#include <string_view>

namespace memest {

/// The measure by which answers are ranked.
enum class Objective : std::uint8_t {
  money,   ///< dollars a token
  time,    ///< tokens a second
  memory,  ///< share of the GPU's memory that stays free
  gpus     ///< how few, then money
};
/// "money", "time", "memory", "gpus".
std::string_view name_of(Objective objective);

/// The size that may grow until it no longer fits.
enum class Growth : std::uint8_t {
  micro_batch,  ///< sequences a GPU and micro-step
  sequence,     ///< tokens, in steps of 1,024
  model         ///< layers of the given width
};
/// "micro-batch", "sequence", "model".
std::string_view name_of(Growth growth);

}  // namespace memest
