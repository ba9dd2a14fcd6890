// Writes events while counting references: a storage is freed with its last one, as in PyTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/timeline.hpp"
#include "memory/timeline/held_storage.hpp"

namespace memest {

/// How micro-steps become events that are those of the one before once more.
enum class EqualMicroSteps : std::uint8_t {
  copied,   ///< from it
  followed  ///< by the engine as all others: for tests
};

class Recorder {
 public:
  explicit Recorder(Timeline& timeline, EqualMicroSteps equal = EqualMicroSteps::copied)
      : timeline_(timeline), equal_(equal) {}

  /// The timeline written so far.
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }

  /// A storage with one reference, the caller's; kNoStorage for 0 bytes.
  StorageId allocate(std::int64_t bytes, Label label, PartStream stream = Stream::compute);
  void retain(StorageId storage) {
    if (storage != kNoStorage) ++references_[storage];
  }
  void release(StorageId storage);
  /// As allocate(), and the reference is the name's.
  [[nodiscard]] HeldStorage make(std::int64_t bytes, const Label& label,
                                 PartStream stream = Stream::compute) {
    return {*this, allocate(bytes, label, stream)};
  }
  /// A name for the caller's reference.
  [[nodiscard]] HeldStorage adopt(StorageId storage) { return {*this, storage}; }
  /// One name more.
  [[nodiscard]] HeldStorage share(StorageId storage) {
    retain(storage);
    return {*this, storage};
  }
  /// A result that nobody names.
  void make_and_free(std::int64_t bytes, const Label& label, PartStream stream = Stream::compute) {
    release(allocate(bytes, label, stream));
  }
  /// The scratch of kernels that run now; what they return is the caller's.
  void launch(std::span<const ScratchStep> steps, const Label& label);
  /// HeldStorage::drop(): a reference ends. While an error unwinds the room for the event is there.
  void end_name(StorageId storage) noexcept;
  [[nodiscard]] std::uint32_t references(StorageId storage) const { return references_[storage]; }

  /// The program has the allocator give back what it caches.
  void empty_cache() {
    timeline_.emptied_before = static_cast<std::uint32_t>(timeline_.events.size());
  }
  /// A CUDA graph's capture begins or ends: what its stream allocates comes from the graph's pool.
  void capture(bool begins);
  /// Another stream uses the storage too (record_stream). A capture cannot ask whether it is done:
  /// the block waits for the capture's end.
  void await(StorageId storage) {
    if (storage != kNoStorage) {
      timeline_.storages[storage].awaited = computes_in_ == Stream::graph;
    }
  }

  /// A place between two events.
  struct Mark {
    std::uint32_t event = 0;
    StorageId storage = 0;
    std::uint32_t span = 0;
  };
  [[nodiscard]] Mark mark() const;
  /// Whether the events from `middle` to here are those from `begin` to `middle` once more, and
  /// what both leave of their own is as much as they end of what came before: from there on a
  /// program that does the same makes the same again.
  [[nodiscard]] bool repeats(const Mark& begin, const Mark& middle) const;
  /// The program makes the events from `begin` to here so many more times; what it still holds of
  /// them is then the last time's. They are written by finish().
  void repeat(const Mark& begin, std::int64_t times);
  /// The timeline has all of its events: names that end behind it, with the program's objects, are
  /// none. Storages that they held stay to the end.
  void finish();

  /// Assigns the events that follow to `step`, outside any phase.
  void begin_step(std::uint16_t step) { step_ = step; }
  void begin(Phase phase, std::uint16_t micro_step = 0);
  void end();
  /// The phase that runs ends here, and `phase` begins in the same micro-step, if that is another.
  void enter_phase(Phase phase);

 private:
  struct Copies {
    Mark begin;
    Mark end;
    StorageId storages = 0;  ///< that one of them makes
    std::uint32_t times = 0;
  };
  void write_copies(const Copies& copies, Timeline& whole) const;
  [[nodiscard]] StorageId number_of(StorageId storage, std::size_t copies) const;

  Timeline& timeline_;
  EqualMicroSteps equal_;
  std::vector<Copies> copies_;
  std::vector<std::uint32_t> references_;
  std::vector<StorageId> launched_;  // by ScratchStep::block, of the kernels that run
  bool finished_ = false;
  bool ended_twice_ = false;  // some name: a destructor cannot say so
  Stream computes_in_ = Stream::compute;
  Phase phase_ = Phase::model;
  std::uint16_t step_ = 0;
};

inline void HeldStorage::drop() noexcept {
  if (storage_ != kNoStorage) recorder_->end_name(give_up());
}

/// The first gradient of a parameter becomes the sum; a later one is added to it, and goes.
inline void add_to_sum(HeldStorage& sum, HeldStorage gradient) {
  if (!sum.is_of_storage()) sum = std::move(gradient);
}

}  // namespace memest
