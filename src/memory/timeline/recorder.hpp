// Writes events while counting references: a storage is freed with its last one, as in PyTorch.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memest/memory/timeline.hpp"

namespace memest {

class Recorder {
 public:
  explicit Recorder(Timeline& timeline) : timeline_(timeline) {}

  /// What has been written so far.
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }

  /// A storage with one reference, the caller's; kNoStorage for 0 bytes.
  StorageId allocate(std::int64_t bytes, Label label, Stream stream = Stream::compute);
  void retain(StorageId storage) {
    if (storage != kNoStorage) ++references_[storage];
  }
  void release(StorageId storage);
  [[nodiscard]] std::uint32_t references(StorageId storage) const { return references_[storage]; }

  /// What follows belongs to `step`, outside any phase.
  void begin_step(std::uint16_t step) { step_ = step; }
  void begin(Phase phase, std::uint16_t micro_step = 0);
  void end();
  /// The phase that runs ends here, and `phase` begins in the same micro-step, if that is another.
  void turn(Phase phase);

 private:
  Timeline& timeline_;
  std::vector<std::uint32_t> references_;
  Phase phase_ = Phase::model;
  std::uint16_t step_ = 0;
};

}  // namespace memest
