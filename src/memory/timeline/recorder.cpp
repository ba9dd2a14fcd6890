#include "memory/timeline/recorder.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

bool are_alike(const Storage& left, const Storage& right) {
  const Label& one = left.label;
  const Label& other = right.label;
  return left.bytes == right.bytes && left.stream == right.stream && one.holding == other.holding &&
         one.origin == other.origin && one.phase == other.phase && one.step == other.step &&
         one.place == other.place && one.op == other.op && one.tensor == other.tensor;
}

}  // namespace

StorageId Recorder::allocate(std::int64_t bytes, Label label, PartStream stream) {
  if (bytes == 0) return kNoStorage;
  const auto id = static_cast<StorageId>(timeline_.storages.size());
  label.phase = phase_;
  label.step = step_;
  if (stream == Stream::compute) stream = computes_in_;
  timeline_.storages.push_back({bytes, label, stream});
  references_.push_back(1);
  // Every storage is freed once at most: its free, too, has room from here on.
  const std::size_t most_events = 2 * timeline_.storages.size();
  if (timeline_.events.capacity() < most_events) timeline_.events.reserve(2 * most_events);
  timeline_.events.push_back({EventKind::allocate, id});
  return id;
}

void Recorder::end_name(StorageId storage) noexcept {
  if (finished_) return;
  if (references_[storage] == 0) {
    ended_twice_ = true;
  } else if (--references_[storage] == 0) {
    timeline_.events.push_back({EventKind::free, storage});
  }
}

void Recorder::launch(std::span<const ScratchStep> steps, const Label& label) {
  launched_.clear();
  for (const ScratchStep& step : steps) {
    if (step.kind == ScratchStep::Kind::release) {
      release(launched_[static_cast<std::size_t>(step.block)]);
    } else {
      launched_.push_back(allocate(step.bytes, label));
    }
  }
}

void Recorder::release(StorageId storage) {
  if (storage == kNoStorage) return;
  expect(references_[storage] > 0, "a storage is released only as often as it is held");
  if (--references_[storage] == 0) timeline_.events.push_back({EventKind::free, storage});
}

void Recorder::capture(bool begins) {
  const bool ends = !begins && computes_in_ == Stream::graph;
  computes_in_ = begins ? Stream::graph : Stream::compute;
  if (ends) timeline_.joined_before = static_cast<std::uint32_t>(timeline_.events.size());
}

void Recorder::begin(Phase phase, std::uint16_t micro_step) {
  phase_ = phase;
  const auto here = static_cast<std::uint32_t>(timeline_.events.size());
  timeline_.spans.push_back({phase, step_, micro_step, here, here});
}

void Recorder::enter_phase(Phase phase) {
  if (phase_ == phase) return;
  end();
  begin(phase, timeline_.spans.back().micro_step);
}

void Recorder::end() {
  timeline_.spans.back().end = static_cast<std::uint32_t>(timeline_.events.size());
}

Recorder::Mark Recorder::mark() const {
  return {static_cast<std::uint32_t>(timeline_.events.size()),
          static_cast<StorageId>(timeline_.storages.size()),
          static_cast<std::uint32_t>(timeline_.spans.size())};
}

bool Recorder::repeats(const Mark& begin, const Mark& middle) const {
  const Mark end = mark();
  const std::uint32_t events = end.event - middle.event;
  const StorageId made = end.storage - middle.storage;
  if (equal_ == EqualMicroSteps::followed || events != middle.event - begin.event ||
      made != middle.storage - begin.storage || events != 2 * made ||
      end.span - middle.span != middle.span - begin.span) {
    return false;
  }
  const auto& storages = timeline_.storages;
  for (std::uint32_t i = 0; i < events; ++i) {
    const Event here = timeline_.events[middle.event + i];
    const Event before = timeline_.events[begin.event + i];
    if (here.kind != before.kind || here.storage < begin.storage ||
        !are_alike(storages[here.storage], storages[before.storage])) {
      return false;
    }
    const bool own = here.storage >= middle.storage;
    if (own && here.storage - made != before.storage) return false;
    if (!own && before.storage >= begin.storage) return false;
  }
  for (std::uint32_t i = 0; i < end.span - middle.span; ++i) {
    const Span& here = timeline_.spans[middle.span + i];
    const Span& before = timeline_.spans[begin.span + i];
    if (here.phase != before.phase || here.begin - middle.event != before.begin - begin.event ||
        here.end - middle.event != before.end - begin.event) {
      return false;
    }
  }
  return true;
}

void Recorder::repeat(const Mark& begin, std::int64_t times) {
  const Mark end = mark();
  copies_.push_back({begin, end, end.storage - begin.storage, static_cast<std::uint32_t>(times)});
}

/// Number of a storage behind the first `copies`: one that was copied is the last copy's.
StorageId Recorder::number_of(StorageId storage, std::size_t copies) const {
  StorageId number = storage;
  for (std::size_t i = 0; i < copies; ++i) {
    if (storage >= copies_[i].begin.storage) number += copies_[i].times * copies_[i].storages;
  }
  return number;
}

/// Right behind what they are copies of, which ends `whole`.
void Recorder::write_copies(const Copies& copies, Timeline& whole) const {
  const std::uint32_t events = copies.end.event - copies.begin.event;
  const std::uint32_t spans = copies.end.span - copies.begin.span;
  for (std::uint32_t i = 0; i < copies.times; ++i) {
    for (std::uint32_t j = 0; j < events; ++j) {
      const Event before = whole.events[whole.events.size() - events];
      whole.events.push_back({before.kind, before.storage + copies.storages});
    }
    whole.storages.insert(whole.storages.end(), timeline_.storages.begin() + copies.begin.storage,
                          timeline_.storages.begin() + copies.end.storage);
    const std::size_t first_span = whole.spans.size() - spans;
    for (std::uint32_t j = 0; j < spans; ++j) {
      Span span = whole.spans[first_span + j];
      ++span.micro_step;
      span.begin += events;
      span.end += events;
      whole.spans.push_back(span);
    }
  }
}

void Recorder::finish() {
  expect(!ended_twice_, "a storage is released only as often as it is held");
  finished_ = true;
  if (copies_.empty()) return;
  expect(!timeline_.joined_before, "no step is copied beside one that is captured");
  Timeline whole;
  std::size_t more_events = 0;
  std::size_t more_storages = 0;
  for (const Copies& copies : copies_) {
    more_events += std::size_t{copies.times} * (copies.end.event - copies.begin.event);
    more_storages += std::size_t{copies.times} * copies.storages;
  }
  whole.events.reserve(timeline_.events.size() + more_events);
  whole.storages.reserve(timeline_.storages.size() + more_storages);
  Mark at;
  const auto write_until = [&](const Mark& end, std::size_t copies) {
    const auto later = static_cast<std::uint32_t>(whole.events.size()) - at.event;
    for (std::uint32_t i = at.event; i < end.event; ++i) {
      const Event event = timeline_.events[i];
      whole.events.push_back({event.kind, number_of(event.storage, copies)});
    }
    const auto& storages = timeline_.storages;
    whole.storages.insert(whole.storages.end(), storages.begin() + at.storage,
                          storages.begin() + end.storage);
    for (std::uint32_t i = at.span; i < end.span; ++i) {
      Span span = timeline_.spans[i];
      span.begin += later;
      span.end += later;
      whole.spans.push_back(span);
    }
    at = end;
  };
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    write_until(copies_[i].end, i);
    write_copies(copies_[i], whole);
  }
  write_until(mark(), copies_.size());
  timeline_.events = std::move(whole.events);
  timeline_.storages = std::move(whole.storages);
  timeline_.spans = std::move(whole.spans);
  copies_.clear();
}

}  // namespace memest
