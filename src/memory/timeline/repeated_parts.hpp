// The micro-steps of a timeline, and which of them make the events of the one before once more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/memory/timeline.hpp"

namespace memest {

/// The events from the beginning of one micro-step to that of the next, or of what follows.
struct TimelinePart {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::size_t first_span = 0;
  std::size_t end_span = 0;
  StorageId first_storage = 0;  ///< that it makes
  StorageId end_storage = 0;
};

/// All of a timeline's events in order.
class TimelineParts {
 public:
  explicit TimelineParts(const Timeline& timeline);

  [[nodiscard]] std::size_t size() const { return parts_.size(); }
  const TimelinePart& operator[](std::size_t part) const { return parts_[part]; }

  /// Whether the part's events are those of the part before it, in the same step: it asks for the
  /// same sizes from the same streams, and frees, in the same order, its own storages and those of
  /// that part. Both free as many as they make: all else that is alive stays so. Parts that repeat
  /// one another free the same of the one before each; the first that is repeated may free others
  /// in their place. False past the last.
  [[nodiscard]] bool repeats(std::size_t part);
  /// The storages that the part frees and has not made.
  [[nodiscard]] std::vector<StorageId> freed_by(std::size_t part) const;

 private:
  [[nodiscard]] bool is_repeated(std::size_t index);

  const Timeline& timeline_;
  std::vector<TimelinePart> parts_;
  std::vector<std::optional<bool>> repeats_;  // what is known of it
};

}  // namespace memest
