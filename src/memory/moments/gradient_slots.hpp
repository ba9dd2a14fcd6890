// Which gradients of a block's tensors wait for the operations that made them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "memest/graph/op.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

/// The gradients on their way through a block. Tensors whose gradient is one buffer share a slot.
class GradientSlots {
 public:
  [[nodiscard]] bool has(TensorId id) const { return slot_of_.contains(id); }

  void make(TensorId id, const Expr& bytes, Reach reach) {
    slot_of_[id] = slots_.size();
    slots_.push_back({bytes, reach});
  }
  void share(TensorId id, std::size_t slot) { slot_of_[id] = slot; }
  [[nodiscard]] std::size_t slot(TensorId id) const { return slot_of_.at(id); }
  [[nodiscard]] const Expr& bytes_of(std::size_t slot) const { return slots_[slot].bytes; }
  void drop(TensorId id) { slot_of_.erase(id); }

  /// Whether a second gradient is added in place: nothing else holds the first one's storage.
  [[nodiscard]] bool adds_in_place(TensorId id) const {
    const std::size_t slot = slot_of_.at(id);
    return slots_[slot].reach == Reach::directly &&
           std::count_if(slot_of_.begin(), slot_of_.end(),
                         [slot](const auto& entry) { return entry.second == slot; }) == 1;
  }

  [[nodiscard]] Expr bytes() const {
    std::set<std::size_t> held;
    for (const auto& [id, slot] : slot_of_) held.insert(slot);
    Expr total;
    for (const std::size_t slot : held) total += slots_[slot].bytes;
    return total;
  }

 private:
  struct Slot {
    Expr bytes;
    Reach reach = Reach::directly;
  };
  std::map<TensorId, std::size_t> slot_of_;
  std::vector<Slot> slots_;
};

}  // namespace memest
