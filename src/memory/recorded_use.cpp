#include "memest/memory/recorded_use.hpp"

#include <algorithm>
#include <cstddef>

#include "memest/memory/caching_allocator.hpp"
#include "memest/memory/play_requests.hpp"

namespace memest {
namespace {

Bytes in_blocks(Bytes size) { return rounded_request(size, {}); }

/// The program holds an allocation until it asks for its free, whatever other streams still read.
bool is_free(TraceEventKind kind) {
  return kind == TraceEventKind::free || kind == TraceEventKind::free_when_done;
}

/// The allocations that are alive while events pass.
class Holdings {
 public:
  explicit Holdings(const AllocatorTrace& trace)
      : sizes_(static_cast<std::size_t>(trace.allocations)) {}

  void pass(const TraceEvent& event) {
    if (event.kind == TraceEventKind::allocate) {
      sizes_[static_cast<std::size_t>(event.number)] = in_blocks(event.size);
      sum_ += in_blocks(event.size);
    } else if (is_free(event.kind)) {
      Bytes& size = sizes_[static_cast<std::size_t>(event.number)];
      sum_ -= size;
      size = Bytes();
    }
  }
  [[nodiscard]] Bytes sum() const { return sum_; }
  [[nodiscard]] const std::vector<Bytes>& sizes() const { return sizes_; }

 private:
  std::vector<Bytes> sizes_;  // by allocation; 0 where it is not alive
  Bytes sum_;
};

/// The event behind which most is allocated, the first of equals.
std::size_t peak_event(const AllocatorTrace& trace) {
  Holdings holdings(trace);
  Bytes most;
  std::size_t peak = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    holdings.pass(trace.events[i]);
    if (holdings.sum() <= most) continue;
    most = holdings.sum();
    peak = i;
  }
  return peak;
}

std::vector<PlaceUse> uses_of(const AllocatorTrace& trace, const std::vector<Bytes>& sizes) {
  // One more than there are places: allocations of none.
  std::vector<PlaceUse> uses(trace.places.size() + 1);
  for (std::size_t i = 0; i < trace.places.size(); ++i) uses[i].place = trace.places[i];
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Bytes()) continue;
    PlaceUse& use = uses[i < trace.asked_at.size() ? trace.asked_at[i] : trace.places.size()];
    ++use.allocations;
    use.bytes += sizes[i];
  }
  std::erase_if(uses, [](const PlaceUse& use) { return use.allocations == 0; });
  std::ranges::stable_sort(uses, std::ranges::greater(), &PlaceUse::bytes);
  return uses;
}

}  // namespace

std::string phase_of(const AllocatorTrace& trace, std::size_t event) {
  for (std::size_t i = event; i < trace.events.size(); ++i) {
    if (trace.events[i].kind != TraceEventKind::marker) continue;
    return trace.markers[static_cast<std::size_t>(trace.events[i].number)].name;
  }
  return "";
}

RecordedMoment moment_behind(const AllocatorTrace& trace, std::size_t event) {
  Holdings holdings(trace);
  for (std::size_t i = 0; i <= event && i < trace.events.size(); ++i) {
    holdings.pass(trace.events[i]);
  }
  return {phase_of(trace, event), holdings.sum(), uses_of(trace, holdings.sizes())};
}

RecordedMoment peak_moment(const AllocatorTrace& trace) {
  return moment_behind(trace, peak_event(trace));
}

std::vector<PlaceGrowth> growing_places(const AllocatorTrace& trace) {
  constexpr std::size_t kRises = 3;
  Holdings holdings(trace);
  std::vector<std::vector<Bytes>> held;  // by optimizer and place
  for (const TraceEvent& event : trace.events) {
    holdings.pass(event);
    if (event.kind != TraceEventKind::marker) continue;
    const TraceMarker& marker = trace.markers[static_cast<std::size_t>(event.number)];
    if (!marker.name.ends_with(".optimizer")) continue;
    held.emplace_back(trace.places.size());
    for (std::size_t i = 0; i < trace.asked_at.size(); ++i) {
      held.back()[trace.asked_at[i]] += holdings.sizes()[i];
    }
  }
  std::vector<PlaceGrowth> growing;
  if (held.size() <= kRises) return growing;
  for (std::size_t place = 0; place < trace.places.size(); ++place) {
    bool rises = true;
    for (std::size_t i = held.size() - kRises; i < held.size(); ++i) {
      rises = rises && held[i][place] > held[i - 1][place];
    }
    const Bytes last = held[held.size() - 1][place] - held[held.size() - 2][place];
    if (rises) growing.push_back({trace.places[place], last});
  }
  std::ranges::stable_sort(growing, std::ranges::greater(), &PlaceGrowth::a_step);
  return growing;
}

std::optional<RecordedFailure> failure_of(const AllocatorTrace& trace) {
  Holdings holdings(trace);
  Bytes reserved;
  std::optional<RecordedFailure> failure;
  std::size_t last = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    holdings.pass(event);
    if (is_segment_event(event.kind)) {
      const bool more =
          event.kind == TraceEventKind::segment_obtained || event.kind == TraceEventKind::mapped;
      more ? reserved += event.size : reserved -= event.size;
    }
    if (event.kind != TraceEventKind::out_of_memory) continue;
    last = i;
    failure = {phase_of(trace, i), trace.failed_at, event.size, holdings.sum(), reserved, {}};
  }
  if (!failure || trace.settings.expandable_segments) return failure;
  AllocatorSettings settings = trace.settings;
  settings.expandable_segments = true;
  failure->fits_expandable = !play_requests(trace, settings, trace.available(), last).failed;
  return failure;
}

}  // namespace memest
