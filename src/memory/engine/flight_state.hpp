// The state of a micro-step between its forward and its backward. A pipeline has many of them in
// flight, each with storages of its own in the same cells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/memory/timeline.hpp"
#include "memory/engine/block_program.hpp"

namespace memest {

/// A gradient that waits for the node that takes it.
struct GradientSlot {
  StorageId storage = kNoStorage;
  Reach reach = Reach::directly;
  bool arrived = false;  ///< a tensor without elements has no storage
};

/// A result that was thrown away, until the backward of what made it has run (graph/remade.hpp).
struct ThrownResult {
  StorageId thrown = kNoStorage;  ///< as the forward made it
  std::uint32_t readers = 0;      ///< that have saved it
  StorageId again = kNoStorage;   ///< as the second forward made it
};
struct RemadeState {
  std::vector<StorageId> inputs;  ///< that the part's checkpoint saved
  std::vector<ThrownResult> results;
};

struct FlightState {
  std::vector<StorageId> storages;        ///< by cell
  std::vector<std::uint8_t> held;         ///< by cell: references of the running program
  std::vector<GradientSlot> slots;        ///< by cell
  std::vector<StorageId> inputs;          ///< of all checkpoints
  std::vector<Slice> inputs_of;           ///< by checkpoint
  std::vector<StorageId> selected;        ///< by cell: kept by a selective checkpoint
  std::vector<RemadeState> remade;        ///< by Checkpoints::remade
  std::vector<StorageId> named_again;     ///< by nodes of the running recompute's graph
  std::vector<StorageId> kept_with_loss;  ///< see Engine::take_kept_with_loss()
};

}  // namespace memest
