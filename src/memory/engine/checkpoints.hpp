// Which stretches of the forward order are recomputed, and from what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "memory/engine/forward_order.hpp"

namespace memest {

/// Ops [begin, end) of the forward order that keep nothing but their inputs.
struct Checkpoint {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t first_kept = 0;  ///< the first op whose node keeps something; `end` if none
  std::uint32_t last_kept = 0;   ///< the last one, where torch.utils.checkpoint stops early
  std::vector<Cell> inputs;      ///< a block's own input first
  std::int64_t input_bytes = 0;  ///< of the first one, where it is a block's
};

/// Ops [begin, end) of the forward order whose results are thrown away behind op `behind` and made
/// again before that one's backward (graph/remade.hpp).
struct RemadeResult {
  /// A gradient that leaves the part: HandedGradient number `handed` of the op at `site`.
  struct Leaving {
    std::uint32_t site = 0;
    std::uint32_t handed = 0;
    Cell target = 0;
  };
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t behind = 0;
  /// An op of the part answers it to those outside.
  struct Result {
    std::uint32_t site = 0;
    Cell answer = 0;
    Cell storage = 0;
  };
  std::vector<Result> results;  ///< in the order in which the part answers them
  std::vector<Cell> inputs;
  std::vector<Leaving> leaving;
};

struct Checkpoints {
  CheckpointPlan plan;
  std::vector<Checkpoint> list;      ///< in forward order, disjoint
  std::vector<RemadeResult> remade;  ///< in forward order, disjoint, outside of `list`
  /// A first argument is kept as this rank's share, over so many ranks; 1: whole.
  std::int64_t shares = 1;
  /// By op of the forward order, one more than a number in `remade`; empty where that is.
  std::vector<std::uint32_t> parts_of_sites = {};
  std::vector<std::uint32_t> drops_of_sites = {};

  /// The number in `remade` of the part that the op is in, and of that whose result is thrown away
  /// behind it.
  [[nodiscard]] std::optional<std::size_t> part_at(std::uint32_t site) const {
    return number_at(parts_of_sites, site);
  }
  [[nodiscard]] std::optional<std::size_t> dropped_behind(std::uint32_t site) const {
    return number_at(drops_of_sites, site);
  }

 private:
  [[nodiscard]] static std::optional<std::size_t> number_at(const std::vector<std::uint32_t>& of,
                                                            std::uint32_t site) {
    if (of.empty() || of[site] == 0) return std::nullopt;
    return of[site] - 1U;
  }
};

/// The checkpoints that `plan` means, over `tensor_ranks` where it distributes their arguments.
Checkpoints checkpoints_of(const Graph& graph, const ForwardOrder& order,
                           const CheckpointPlan& plan, std::int64_t tensor_ranks);

}  // namespace memest
