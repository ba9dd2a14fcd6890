#include "recorder.hpp"

#include "memest/diag/expect.hpp"

namespace memest {

StorageId Recorder::allocate(std::int64_t bytes, Label label, Stream stream) {
  if (bytes == 0) return kNoStorage;
  const auto id = static_cast<StorageId>(timeline_.storages.size());
  label.phase = phase_;
  label.step = step_;
  timeline_.storages.push_back({bytes, label, stream});
  references_.push_back(1);
  timeline_.events.push_back({EventKind::allocate, id});
  return id;
}

void Recorder::release(StorageId storage) {
  if (storage == kNoStorage) return;
  expect(references_[storage] > 0, "a storage is released only as often as it is held");
  if (--references_[storage] == 0) timeline_.events.push_back({EventKind::free, storage});
}

void Recorder::begin(Phase phase, std::uint16_t micro_step) {
  phase_ = phase;
  const auto here = static_cast<std::uint32_t>(timeline_.events.size());
  timeline_.spans.push_back({phase, step_, micro_step, here, here});
}

void Recorder::turn(Phase phase) {
  if (phase_ == phase) return;
  end();
  begin(phase, timeline_.spans.back().micro_step);
}

void Recorder::end() {
  timeline_.spans.back().end = static_cast<std::uint32_t>(timeline_.events.size());
}

}  // namespace memest
