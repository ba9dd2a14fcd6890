// How programs cut a model into the units of fully_shard.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/memory/timeline.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/forward_order.hpp"

namespace memest {

/// As the framework cuts its model, or accelerate for its loop.
FsdpUnits layout_of(const Implementation& implementation);

/// Parameters that are all-gathered at once.
struct ShardedUnit {
  static constexpr std::uint32_t kBlocks = ~std::uint32_t{0};
  /// No module of it is ever called (TRL's loss gathers lm_head.weight by itself): it lies in
  /// shares alone.
  static constexpr std::uint32_t kNever = kBlocks - 1;

  std::vector<std::uint32_t> parameters;  ///< Timeline::parameters, as their modules register them
  std::vector<std::uint32_t> uses;        ///< ForwardOrder::parameters, whose gradients it reduces
  std::uint32_t first = 0;                ///< instances [first, last] run it
  std::uint32_t last = 0;
  std::uint32_t op = kBlocks;  ///< of one block, that is all it runs
  std::uint32_t more_ops = 0;  ///< so many behind it are the unit's too
  std::int64_t ranks = 1;      ///< that have a share each
  bool by_columns = false;     ///< a share is not a part of the rows
  /// Whether the unit's forward begins with the block, or ends with it.
  [[nodiscard]] bool begins_with(std::uint32_t instance) const {
    return op == kBlocks && first == instance;
  }
  [[nodiscard]] bool ends_with(std::uint32_t instance) const {
    return op == kBlocks && last == instance;
  }
  std::size_t part = 0;              ///< of the model: ForwardOrder::stages()
  bool ends_behind_look_up = false;  ///< of a table, which is all that it has
  /// One of its modules is never called (TRL's head reads lm_head.weight alone), so that no hook
  /// runs behind its forward and none before its backward.
  bool never_ends = false;
  bool is_root = false;  ///< the last of its part, around all others
  /// The op of the root's last block with which the model answers; behind it the program goes on.
  std::uint32_t answers = kBlocks;
  /// A root that gives back what it gathered when the model answers.
  [[nodiscard]] bool ends_at_answer() const { return is_root && reshards && answers != kBlocks; }
  bool reshards = true;  ///< gives the gathered weights back after the forward
  /// A hook stands before its backward: what it answers wants a gradient.
  bool has_backward = true;
  /// Its reduced gradients are added to the shares of a unit that has reduced before: both have one
  /// tied parameter.
  bool adds_to_others = false;
  /// Units that it gathers ahead as soon as it is gathered itself, in the forward and in the
  /// backward, where it is told to (set_modules_to_forward_prefetch and its like).
  std::vector<std::size_t> ahead;
  std::vector<std::size_t> ahead_in_backward;
  /// It reads token ids, through which no gradient comes: nothing tells when its backward has run
  /// but the end of all.
  bool reduces_at_end = false;
};

/// The units of `job` in the order in which they end in the forward; the last of each part of the
/// model is its root, which may own nothing.
std::vector<ShardedUnit> sharded_units(const Job& job, const Inventory& inventory,
                                       const ForwardOrder& order, const Timeline& timeline);

}  // namespace memest
