#include <algorithm>
#include <cstddef>

#include "memest/memory/timeline_difference.hpp"

namespace memest {
namespace {

class EventComparison {
 public:
  EventComparison(const Timeline& predicted, const AllocatorTrace& recorded)
      : predicted_(predicted) {
    recorded_.reserve(recorded.events.size());
    for (const TraceEvent& event : recorded.events) {
      if (event.kind == TraceEventKind::out_of_memory) {
        cut_off_ = true;
        break;
      }
      // The programs followed here wait for events: no free waits for another stream.
      if (event.kind == TraceEventKind::allocate || event.kind == TraceEventKind::free) {
        recorded_.push_back(event);
      }
    }
  }

  std::optional<TimelineDifference> run() {
    while (at_ < predicted_.events.size() || line_ < recorded_.size()) {
      if (auto difference = compare_frees()) return difference;
      if (line_ == recorded_.size() && (cut_off_ || at_ == predicted_.events.size())) break;
      if (auto difference = compare_allocation()) return difference;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] TimelineDifference here(TimelineDifference::Kind kind) const {
    TimelineDifference difference;
    difference.kind = kind;
    difference.event = static_cast<std::uint32_t>(at_);
    difference.line =
        line_ < recorded_.size() ? static_cast<std::uint32_t>(recorded_[line_].line) : 0;
    return difference;
  }

  std::optional<TimelineDifference> compare_frees() {
    TimelineDifference difference = here(TimelineDifference::Kind::freed);
    auto& predicted = difference.freed_by_prediction;
    auto& recorded = difference.freed_by_record;
    for (; at_ < predicted_.events.size() && predicted_.events[at_].kind == EventKind::free;
         ++at_) {
      predicted.push_back(predicted_.events[at_].storage);
    }
    for (; line_ < recorded_.size() && recorded_[line_].kind == TraceEventKind::free; ++line_) {
      recorded.push_back(storage_of_[static_cast<std::size_t>(recorded_[line_].number)]);
    }
    std::sort(predicted.begin(), predicted.end());
    std::sort(recorded.begin(), recorded.end());
    if (predicted == recorded) return std::nullopt;
    std::vector<StorageId> common;
    std::set_intersection(predicted.begin(), predicted.end(), recorded.begin(), recorded.end(),
                          std::back_inserter(common));
    const auto is_common = [&common](StorageId storage) {
      return std::binary_search(common.begin(), common.end(), storage);
    };
    std::erase_if(predicted, is_common);
    std::erase_if(recorded, is_common);
    return difference;
  }

  std::optional<TimelineDifference> compare_allocation() {
    TimelineDifference difference = here(TimelineDifference::Kind::size);
    if (line_ < recorded_.size()) difference.recorded_bytes = recorded_[line_].size.value();
    if (at_ < predicted_.events.size()) difference.predicted = predicted_.events[at_].storage;
    if (at_ == predicted_.events.size()) {
      difference.kind = TimelineDifference::Kind::allocate;
      return difference;
    }
    if (line_ == recorded_.size()) {
      difference.kind = TimelineDifference::Kind::free;
      return difference;
    }
    const StorageId storage = predicted_.events[at_].storage;
    if (predicted_.storages[storage].bytes != recorded_[line_].size.value()) return difference;
    if (stream_number(predicted_.storages[storage].stream) != recorded_[line_].stream) {
      difference.kind = TimelineDifference::Kind::stream;
      return difference;
    }
    storage_of_.push_back(storage);
    ++at_;
    ++line_;
    return std::nullopt;
  }

  /// As a record numbers streams: by their first appearance.
  std::int32_t stream_number(PartStream stream) {
    const auto known = std::find(streams_.begin(), streams_.end(), stream);
    const auto number = static_cast<std::int32_t>(known - streams_.begin());
    if (known == streams_.end()) streams_.push_back(stream);
    return number;
  }

  const Timeline& predicted_;
  std::vector<TraceEvent> recorded_;
  std::vector<PartStream> streams_;
  bool cut_off_ = false;  // the record ends because it ran out of memory
  std::size_t at_ = 0;
  std::size_t line_ = 0;
  std::vector<StorageId> storage_of_;  // by the record's block
};

}  // namespace

std::optional<TimelineDifference> first_difference(const Timeline& predicted,
                                                   const AllocatorTrace& recorded) {
  return EventComparison(predicted, recorded).run();
}

}  // namespace memest
