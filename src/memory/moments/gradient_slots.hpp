// Which gradients of a block's tensors wait for the operations that made them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memest/graph/op.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

/// The gradients on their way through a block, few at a time. Tensors whose gradient is one buffer
/// share a slot.
class GradientSlots {
 public:
  [[nodiscard]] bool has(TensorId id) const { return find(id) != waiting_.size(); }

  void make(TensorId id, const Expr& bytes, Reach reach) {
    slots_.push_back({bytes, reach});
    share(id, slots_.size() - 1);
  }
  void share(TensorId id, std::size_t slot) {
    drop(id);
    waiting_.emplace_back(id, slot);
    if (++slots_[slot].holders == 1) bytes_ += slots_[slot].bytes;
  }
  [[nodiscard]] std::size_t slot(TensorId id) const { return waiting_[find(id)].second; }
  [[nodiscard]] const Expr& bytes_of(std::size_t slot) const { return slots_[slot].bytes; }
  void drop(TensorId id) {
    const std::size_t at = find(id);
    if (at == waiting_.size()) return;
    Slot& slot = slots_[waiting_[at].second];
    if (--slot.holders == 0) bytes_ -= slot.bytes;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  /// Whether a second gradient is added in place: nothing else holds the first one's storage.
  [[nodiscard]] bool adds_in_place(TensorId id) const {
    const Slot& one = slots_[slot(id)];
    return one.reach == Reach::directly && one.holders == 1;
  }

  /// Bytes of the slots that some tensor holds.
  [[nodiscard]] const Expr& bytes() const { return bytes_; }

 private:
  struct Slot {
    Expr bytes;
    Reach reach = Reach::directly;
    std::int64_t holders = 0;
  };

  /// The index of `id` in `waiting_`; its size where no gradient waits for it.
  [[nodiscard]] std::size_t find(TensorId id) const {
    const auto is_of = [id](const auto& entry) { return entry.first == id; };
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), is_of);
    return static_cast<std::size_t>(found - waiting_.begin());
  }

  std::vector<std::pair<TensorId, std::size_t>> waiting_;  // tensors and their slots
  std::vector<Slot> slots_;
  Expr bytes_;
};

}  // namespace memest
