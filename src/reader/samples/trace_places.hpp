// Where a traced program asked for memory: `p N TEXT` says what place N is, `@ N` that what follows
// is asked for there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memest/spec/allocator_trace.hpp"

namespace memest {

class TracePlaces {
 public:
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
  void define(std::string text) { places_.push_back(std::move(text)); }

  /// False where no such place was defined.
  bool choose(std::int64_t place) {
    if (place >= size()) return false;
    chosen_ = static_cast<std::size_t>(place);
    has_chosen_ = true;
    return true;
  }
  /// Empty before the first choice.
  [[nodiscard]] std::string chosen() const { return has_chosen_ ? places_[chosen_] : ""; }

  /// The trace's last allocation is asked for at the chosen place. A trace has either no places or
  /// one for each allocation.
  void note(AllocatorTrace& trace) const {
    if (has_chosen_) trace.asked_at.push_back(static_cast<std::uint32_t>(chosen_));
  }
  void give(AllocatorTrace& trace) { trace.places = std::move(places_); }

 private:
  std::vector<std::string> places_;
  std::size_t chosen_ = 0;
  bool has_chosen_ = false;
};

}  // namespace memest
