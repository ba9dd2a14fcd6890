#include "memory/recorded/match_events.hpp"

#include <algorithm>
#include <string>

#include "memest/memory/recorded_use.hpp"

namespace memest {
namespace {

bool frees_block(TraceEventKind kind) {
  return kind == TraceEventKind::free || kind == TraceEventKind::free_when_done;
}

bool has_allocation(TraceEventKind kind) {
  return kind == TraceEventKind::allocate || frees_block(kind);
}

bool is_same(const EventAt& left, const EventAt& right) {
  if (!left.event || !right.event) return left.event.has_value() == right.event.has_value();
  if (left.event->kind != right.event->kind || left.name != right.name) return false;
  if (!has_allocation(left.event->kind)) return true;
  return left.event->number == right.event->number && left.event->stream == right.event->stream;
}

std::optional<std::size_t> index_of(const std::vector<std::size_t>& events, std::size_t i) {
  return i < events.size() ? std::optional(events[i]) : std::nullopt;
}

FamilyRefusal refusal(FamilyFault fault, std::string phase, std::vector<EventAt> events) {
  FamilyRefusal refusal;
  refusal.fault = fault;
  refusal.phase = std::move(phase);
  refusal.events = std::move(events);
  return refusal;
}

}  // namespace

std::vector<std::size_t> program_events(const AllocatorTrace& trace) {
  std::vector<std::size_t> events;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEventKind kind = trace.events[i].kind;
    if (!is_segment_event(kind) && kind != TraceEventKind::owner) events.push_back(i);
  }
  const auto frees = [&](std::size_t i) { return frees_block(trace.events[i].kind); };
  for (auto begin = events.begin(); begin != events.end();) {
    begin = std::find_if(begin, events.end(), frees);
    const auto end = std::find_if_not(begin, events.end(), frees);
    // Stable: a block that another stream uses is freed, and comes back behind.
    std::stable_sort(begin, end, [&](std::size_t left, std::size_t right) {
      return trace.events[left].number < trace.events[right].number;
    });
    begin = end;
  }
  return events;
}

EventAt event_at(const RecordedAt& recorded, std::optional<std::size_t> index) {
  EventAt at{recorded.point, std::nullopt, ""};
  if (!index) return at;
  const AllocatorTrace& trace = recorded.recording.trace;
  at.event = trace.events[*index];
  if (has_allocation(at.event->kind)) at.name = trace.place_of(at.event->number);
  if (at.event->kind == TraceEventKind::marker) {
    at.name = trace.markers[static_cast<std::size_t>(at.event->number)].name;
  } else if (at.event->kind == TraceEventKind::out_of_memory) {
    at.name = trace.failed_at;
  }
  return at;
}

std::string phase_at(const RecordedAt& recorded, std::optional<std::size_t> index) {
  const AllocatorTrace& trace = recorded.recording.trace;
  return phase_of(trace, index.value_or(trace.events.size()));
}

std::optional<FamilyRefusal> first_difference(const RecordedAt& first, const RecordedAt& other) {
  const std::vector<std::size_t> own = program_events(first.recording.trace);
  const std::vector<std::size_t> others = program_events(other.recording.trace);
  for (std::size_t i = 0; i < std::max(own.size(), others.size()); ++i) {
    const EventAt left = event_at(first, index_of(own, i));
    const EventAt right = event_at(other, index_of(others, i));
    for (const auto* at : {&left, &right}) {
      if (!at->event || at->event->kind != TraceEventKind::out_of_memory) continue;
      const bool of_first = at == &left;
      return refusal(FamilyFault::ran_out,
                     phase_at(of_first ? first : other, index_of(of_first ? own : others, i)),
                     {*at});
    }
    if (is_same(left, right)) continue;
    return refusal(FamilyFault::other_event, phase_at(first, index_of(own, i)), {left, right});
  }
  return std::nullopt;
}

}  // namespace memest
