#include "memory/loop/stand_ins.hpp"

#include <algorithm>

#include "memest/memory/caching_allocator.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Storages one by one; those of further micro-batches are joined, each with its likes.
constexpr std::int64_t kMostStorages = 100'000;

StorageId next_storage(const Recorder& recorder) {
  return static_cast<StorageId>(recorder.timeline().storages.size());
}

}  // namespace

void StandIns::begin_model() { made_.emplace_back(next_storage(recorder_), kNoStorage); }

void StandIns::end_model() { made_.back().second = next_storage(recorder_); }

std::vector<StorageId> StandIns::left_by_model() const {
  std::vector<StorageId> left;
  for (const auto& [begin, end] : made_) {
    for (StorageId id = begin; id < end; ++id) {
      if (recorder_.references(id) > 0) left.push_back(id);
    }
  }
  return left;
}

void StandIns::add(const std::vector<StorageId>& left, std::int64_t count) {
  if (left.empty()) return;
  const std::size_t first = groups_.size();
  for (const StorageId model : left) groups_.push_back({model, {}});
  const auto each = static_cast<std::int64_t>(left.size());
  const std::int64_t single = std::min(count, std::max<std::int64_t>(kMostStorages / each, 1));
  for (std::int64_t i = 0; i < single; ++i) {
    for (std::size_t group = first; group < groups_.size(); ++group) add_like(groups_[group], 1);
  }
  if (single == count) return;
  for (std::size_t group = first; group < groups_.size(); ++group) {
    add_like(groups_[group], count - single);
  }
}

/// Several in one are as large as their blocks.
void StandIns::add_like(Group& group, std::int64_t count) {
  const Storage model = recorder_.timeline().storages[group.model];
  const std::int64_t block = rounded_request(Bytes(model.bytes), RoundingDivisions{}).value();
  const std::int64_t bytes = count == 1 ? model.bytes : checked_multiply(block, count);
  group.likes.push_back(recorder_.make(bytes, model.label, model.stream));
}

void StandIns::end_with_model() {
  std::erase_if(groups_, [this](Group& group) {
    if (recorder_.references(group.model) > 0) return false;
    group.likes.drop();
    return true;
  });
  made_.clear();
}

}  // namespace memest
