// A step of many micro-batches is followed through some of them: the others run the same events.
// Tensors that those leave alive stand beside them, storage by storage, each as long as the one
// that it is like.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/timeline/recorder.hpp"

namespace memest {

class StandIns {
 public:
  explicit StandIns(Recorder& recorder) : recorder_(recorder) {}

  /// Storages made from `begin_model` to `end_model` are of the micro-batch the others are like.
  void begin_model();
  void end_model();
  /// Those of the storages made so that are still held: every micro-batch leaves such.
  [[nodiscard]] std::vector<StorageId> left_by_model() const;

  /// `count` more of each of `left`.
  void add(const std::vector<StorageId>& left, std::int64_t count);
  /// Stand-ins of what is no longer held end with it.
  void end_with_model();

 private:
  struct Group {
    StorageId model = kNoStorage;
    HeldVector likes;
  };
  void add_like(Group& group, std::int64_t count);

  Recorder& recorder_;
  std::vector<std::pair<StorageId, StorageId>> made_;  // ranges of the model's storages
  std::vector<Group> groups_;
};

}  // namespace memest
