// How programs cut a model into the units of fully_shard.
#pragma once

#include <cstdint>
#include <vector>

#include "forward_order.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// A unit a layer; of the rest, parts or one unit.
struct UnitLayout {
  /// The input embedding is a unit, and the final norm with the output head: one unit together
  /// where the embedding is tied. What is left is the root's.
  bool ends_apart = false;
  bool loss_in_model = true;  ///< the root ends with the loss, else with the logits
  /// A tied table is a parameter of both units, each of which gathers it.
  bool gathers_tied_twice = false;
};
UnitLayout layout_of(const Implementation& implementation);

/// What is gathered at once.
struct ShardedUnit {
  std::vector<std::uint32_t> parameters;  ///< Timeline::parameters, as their modules register them
  std::vector<std::uint32_t> uses;        ///< ForwardOrder::parameters, whose gradients it reduces
  std::uint32_t first = 0;                ///< instances [first, last] run it
  std::uint32_t last = 0;
  std::size_t part = 0;              ///< of the model: ForwardOrder::stages()
  bool ends_behind_look_up = false;  ///< of a table, which is all that it has
  bool is_root = false;              ///< the last of its part, around all others
  bool reshards = true;              ///< gives the gathered weights back after the forward
  /// What it reduces is added to the shares of a unit that has reduced before: both have one tied
  /// parameter.
  bool adds_to_others = false;
  /// It reads token ids, through which no gradient comes: nothing tells when its backward has run
  /// but the end of all.
  bool reduces_at_end = false;
};

/// The units of `job` in the order in which they end in the forward; the last of each part of the
/// model is its root, which may own nothing.
std::vector<ShardedUnit> sharded_units(const Job& job, const Inventory& inventory,
                                       const ForwardOrder& order, const Timeline& timeline);

}  // namespace memest
