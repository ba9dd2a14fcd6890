#include "memory/timeline/repeated_parts.hpp"

#include <algorithm>

namespace memest {
namespace {

bool is_same_micro_step(const Span& left, const Span& right) {
  return left.step == right.step && left.micro_step == right.micro_step;
}

/// Whether the spans of both stand at the same of their events.
bool has_spans_of(const Timeline& timeline, const TimelinePart& part, const TimelinePart& before) {
  if (part.end_span - part.first_span != before.end_span - before.first_span) return false;
  for (std::size_t i = 0; i < part.end_span - part.first_span; ++i) {
    const Span& here = timeline.spans[part.first_span + i];
    const Span& there = timeline.spans[before.first_span + i];
    if (here.phase != there.phase || here.step != there.step ||
        here.begin - part.begin != there.begin - before.begin ||
        here.end - part.begin != there.end - before.begin) {
      return false;
    }
  }
  return true;
}

bool has_storages_of(const Timeline& timeline, const TimelinePart& part,
                     const TimelinePart& before) {
  const auto begin = timeline.storages.begin();
  return std::equal(begin + part.first_storage, begin + part.end_storage,
                    begin + before.first_storage, [](const Storage& left, const Storage& right) {
                      return left.bytes == right.bytes && left.stream == right.stream;
                    });
}

/// Other storages that `part` frees were made by the part before. Those that `before` frees besides
/// may be of any order where it is the `first` of these.
bool has_events_of(const Timeline& timeline, const TimelinePart& part, const TimelinePart& before,
                   bool first) {
  const StorageId later = part.first_storage - before.first_storage;
  const auto begin = timeline.events.begin();
  const auto is_alike = [&](StorageId left, StorageId right) {
    const Storage& here = timeline.storages[left];
    const Storage& there = timeline.storages[right];
    return left < part.first_storage && right < before.first_storage && here.bytes == there.bytes &&
           here.stream == there.stream;
  };
  return std::equal(begin + part.begin, begin + part.end, begin + before.begin,
                    [&](const Event& left, const Event& right) {
                      return left.kind == right.kind && left.storage >= before.first_storage &&
                             (left.storage == right.storage + later ||
                              (first && is_alike(left.storage, right.storage)));
                    });
}

/// Storages are numbered in the order in which they are made.
StorageId first_storage_from(const Timeline& timeline, std::uint32_t event) {
  const auto made = std::find_if(timeline.events.begin() + event, timeline.events.end(),
                                 [](Event one) { return one.kind == EventKind::allocate; });
  return made == timeline.events.end() ? static_cast<StorageId>(timeline.storages.size())
                                       : made->storage;
}

}  // namespace

TimelineParts::TimelineParts(const Timeline& timeline) : timeline_(timeline) {
  TimelinePart part;
  const auto close = [&](std::size_t end, std::size_t end_span) {
    part.end = static_cast<std::uint32_t>(end);
    part.end_span = end_span;
    part.end_storage = first_storage_from(timeline, part.end);
    parts_.push_back(part);
    part = {part.end, 0, end_span, 0, part.end_storage, 0};
  };
  for (std::size_t i = 1; i < timeline.spans.size(); ++i) {
    if (is_same_micro_step(timeline.spans[i], timeline.spans[i - 1])) continue;
    close(timeline.spans[i].begin, i);
  }
  close(timeline.events.size(), timeline.spans.size());
  repeats_.resize(parts_.size());
}

bool TimelineParts::repeats(std::size_t part) {
  if (part == 0 || part >= parts_.size()) return false;
  std::optional<bool>& known = repeats_[part];
  if (!known) known = is_repeated(part);
  return *known;
}

bool TimelineParts::is_repeated(std::size_t index) {
  const TimelinePart& part = parts_[index];
  const TimelinePart& before = parts_[index - 1];
  const std::uint32_t events = part.end - part.begin;
  const StorageId made = part.end_storage - part.first_storage;
  return events == 2 * made && events == before.end - before.begin &&
         made == before.end_storage - before.first_storage &&
         has_spans_of(timeline_, part, before) && has_storages_of(timeline_, part, before) &&
         has_events_of(timeline_, part, before, !repeats(index - 1));
}

std::vector<StorageId> TimelineParts::freed_by(std::size_t part) const {
  const TimelinePart& one = parts_[part];
  std::vector<StorageId> freed;
  for (std::uint32_t i = one.begin; i < one.end; ++i) {
    const Event event = timeline_.events[i];
    if (event.kind == EventKind::free && event.storage < one.first_storage) {
      freed.push_back(event.storage);
    }
  }
  return freed;
}

}  // namespace memest
