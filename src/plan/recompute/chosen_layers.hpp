// Which layers of a net whose layers are unlike to recompute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "memest/units/quantity.hpp"

namespace memest {

/// A layer in a checkpoint of its own: what its second forward takes, and what it does not keep.
struct LayerSaving {
  double seconds = 0;
  std::int64_t bytes = 0;
  std::size_t kind = 0;  ///< layers of a kind are alike
};

/// Bytes by which the job with these layers recomputed is over what it may take; none or less where
/// it fits. Absent where it cannot be told.
using OverBy = std::function<std::optional<std::int64_t>(const std::vector<std::int64_t>&)>;

/// So few layers are chosen by looking at their subsets in the order of their time.
inline constexpr std::size_t kMostEnumerated = 6;
/// Nets of more layers are taken from the first on, as those whose layers are alike.
inline constexpr std::size_t kMostChosen = 64;

/// Finds the layers of least time that fit, ascending; none where not all together do. Among more
/// than kMostEnumerated it takes the least time for so many bytes, and for more where those do not
/// do; then leaves layers out, of every kind the first, as long as it fits without.
std::optional<std::vector<std::int64_t>> choose_layers(const std::vector<LayerSaving>& layers,
                                                       const OverBy& over);

}  // namespace memest
