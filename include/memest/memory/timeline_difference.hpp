// A predicted timeline held against a recorded one: event by event, where they part first; and
// allocation by allocation, which are the same and which are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/memory/timeline.hpp"
#include "memest/spec/allocator_trace.hpp"

namespace memest {

struct TimelineDifference {
  enum class Kind : std::uint8_t {
    size,      ///< both allocate, not the same
    stream,    ///< both allocate as much, on streams that are not the same
    allocate,  ///< the record allocates where the prediction frees or ends
    free,      ///< the record frees or ends where the prediction allocates
    freed      ///< both free, not the same blocks
  };
  Kind kind = Kind::size;
  std::uint32_t event = 0;  ///< of the prediction, or their number where it ended
  std::uint32_t line = 0;   ///< of the record, 0 where it ended
  std::int64_t recorded_bytes = 0;
  StorageId predicted = kNoStorage;  ///< what the prediction allocates there
  /// Where frees do not agree: storages that only one side frees before its next allocation.
  std::vector<StorageId> freed_by_record;
  std::vector<StorageId> freed_by_prediction;
};

/// The first difference; none where all events agree. Streams are the same where they first appear
/// in the same order. The order of frees between two allocations does not count: no allocator can
/// tell. A record that ran out of memory is compared up to there.
std::optional<TimelineDifference> first_difference(const Timeline& predicted,
                                                   const AllocatorTrace& recorded);

/// An allocation of one side that the other has not, or of both in another size.
struct UnmatchedAllocation {
  static constexpr std::int64_t kNone = -1;

  StorageId predicted = kNoStorage;
  std::int64_t recorded = kNone;  ///< which of the record's, from 0 on
};

/// The allocations of both sides, one to one in their order.
struct AllocationMatch {
  std::size_t matched = 0;                     ///< in the same order, of the same size
  std::vector<UnmatchedAllocation> unmatched;  ///< in order
  std::size_t predicted_before = 0;            ///< a record that begins late has them behind it
  std::size_t predicted_after = 0;             ///< the record ends before them
  std::size_t recorded_after = 0;              ///< the prediction ends before them
  bool given_up = false;                       ///< what comes after has too little in common
};

/// Matches as many allocations of equal size as can be without crossing (Myers, "An O(ND)
/// difference algorithm", 1986), up to where either side ends. A record that began late starts at
/// the allocation behind which most are equal.
AllocationMatch match_allocations(const Timeline& predicted, const AllocatorTrace& recorded);

}  // namespace memest
