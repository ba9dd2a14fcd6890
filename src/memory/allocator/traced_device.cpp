#include "memory/allocator/traced_device.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// As the trace writes it.
std::string text_of(TraceEventKind kind, const DeviceRange& range) {
  constexpr std::string_view kLetters = "SsMU";
  const auto letter =
      static_cast<std::size_t>(kind) - static_cast<std::size_t>(TraceEventKind::segment_obtained);
  std::array<char, 2 * sizeof(Address)> digits{};
  char* const end =
      std::to_chars(digits.data(), digits.data() + digits.size(), range.address, 16).ptr;
  return std::string(1, kLetters.at(letter)) + " " + std::string(digits.data(), end) + " " +
         std::to_string(range.size.value()) + " " + std::to_string(range.stream);
}

DeviceRange range_of(const TraceEvent& event) { return {event.number, event.size, event.stream}; }

}  // namespace

TracedDevice::TracedDevice(const AllocatorTrace& trace, SegmentAddresses addresses)
    : trace_(trace), addresses_(addresses), room_(trace.available()) {
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    if (is_segment_event(trace.events[i].kind)) segments_.push_back(i);
  }
}

const TraceEvent& TracedDevice::segment_event(std::size_t index) const {
  return trace_.events[segments_[index]];
}

void TracedDevice::begin(std::size_t index) {
  event_ = index;
  std::size_t limit = index;
  if (trace_.events[index].kind == TraceEventKind::empty_cache) {
    ++limit;
    while (limit < trace_.events.size() && is_segment_event(trace_.events[limit].kind)) ++limit;
  }
  while (until_ < segments_.size() && segments_[until_] < limit) ++until_;
}

void TracedDevice::settle() {
  if (difference_ || next_ == until_) return;
  const TraceEvent& missed = segment_event(next_);
  difference_ = {missed.line, "segments", "nothing", text_of(missed.kind, range_of(missed))};
}

void TracedDevice::finish() {
  until_ = segments_.size();
  settle();
}

void TracedDevice::compare(TraceEventKind kind, const DeviceRange& range) {
  if (difference_) return;
  const std::string replayed = text_of(kind, range);
  if (next_ == until_) {
    difference_ = {trace_.events[event_].line, "segments", replayed, "nothing"};
    return;
  }
  const TraceEvent& recorded = segment_event(next_++);
  if (recorded.kind == kind && range_of(recorded) == range) return;
  difference_ = {recorded.line, "segments", replayed, text_of(recorded.kind, range_of(recorded))};
}

/// Where the trace has its next segment, or where one is predicted; elsewhere if that is taken,
/// which compare() then tells.
Address TracedDevice::place(Bytes size) {
  constexpr Address kElsewhere = Address{1} << 62U;
  const Address recorded = next_ < segments_.size() ? segment_event(next_).number : kElsewhere;
  Address address = recorded;
  if (addresses_ == SegmentAddresses::predicted) {
    address = predicted_.take(size);
    if (!offset_) offset_ = recorded - address;
    address += *offset_;
  }
  const auto next = taken_.lower_bound(address);
  const bool overlaps = (next != taken_.end() && next->first < address + size.value()) ||
                        (next != taken_.begin() && std::prev(next)->second > address);
  if (overlaps) address = std::max(kElsewhere, taken_.rbegin()->second);
  taken_.emplace(address, address + size.value());
  return address;
}

void TracedDevice::give_back(const DeviceRange& range) {
  expect(taken_.erase(range.address) == 1, "a segment given back that was not handed out");
  if (addresses_ == SegmentAddresses::predicted && !difference_) {
    predicted_.give_back(range.address - *offset_, range.size);
  }
}

std::optional<Address> TracedDevice::allocate(Bytes size, int stream) {
  if (size > room_) return {};
  room_ -= size;
  const Address address = place(size);
  compare(TraceEventKind::segment_obtained, {address, size, stream});
  return address;
}

void TracedDevice::release(const DeviceRange& segment) {
  compare(TraceEventKind::segment_returned, segment);
  room_ += segment.size;
  give_back(segment);
}

Address TracedDevice::reserve_addresses(Bytes size, int) { return place(size); }

void TracedDevice::return_addresses(const DeviceRange& space) { give_back(space); }

bool TracedDevice::map(const DeviceRange& range) {
  if (range.size > room_) return false;
  room_ -= range.size;
  compare(TraceEventKind::mapped, range);
  return true;
}

void TracedDevice::unmap(const DeviceRange& range) {
  compare(TraceEventKind::unmapped, range);
  room_ += range.size;
}

}  // namespace memest
