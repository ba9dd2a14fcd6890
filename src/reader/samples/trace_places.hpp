// Where a traced program asked for memory: `p N TEXT` says what place N is, `@ N` that what follows
// is asked for there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memest/spec/allocator_trace.hpp"
#include "reader/samples/line_words.hpp"

namespace memest {

class TracePlaces {
 public:
  /// `p N TEXT` of a whole `line`.
  void define(LineWords words, const PlacedText& line) {
    if (words.words.size() < 2)
      return words.refuse(words.words.front(), "'p' is written p NUMBER TEXT");
    words.expect_next(1, places_.size(), "places");
    if (words.good) places_.push_back(rest_behind(line, words.words[1]));
  }

  /// `@ N`.
  void choose(LineWords words, const AllocatorTrace& trace) {
    if (words.words.size() != 2)
      return words.refuse(words.words.front(), "'@' is written @ NUMBER");
    if (trace.allocations > 0 && trace.asked_at.empty()) {
      return words.refuse(words.words.front(), "'@' stands behind allocations of no place",
                          "the first one stands before them");
    }
    const std::size_t place = words.known(1, places_.size(), "place");
    if (!words.good) return;
    chosen_ = place;
    has_chosen_ = true;
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
