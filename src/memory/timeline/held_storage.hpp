// Names of storages, as a Python program has them: a storage lives as long as one of its names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memest/memory/timeline.hpp"

namespace memest {

class Recorder;

/// One reference to a storage, which ends with its scope. Names of one scope end in reverse order;
/// where a program lets them go in another, drop() says so.
///
///     HeldStorage norm = make(4);   // norm = ...             + norm
///     norm = make(4);               // norm = norm / 2        + quotient, then - norm
class HeldStorage {
 public:
  /// A name of nothing.
  HeldStorage() = default;
  /// Takes over a reference that somebody gives up.
  HeldStorage(Recorder& recorder, StorageId storage) : recorder_(&recorder), storage_(storage) {}
  HeldStorage(HeldStorage&& other) noexcept
      : recorder_(other.recorder_), storage_(other.give_up()) {}
  /// The name's last storage goes when the next one is there.
  HeldStorage& operator=(HeldStorage&& other) noexcept {
    HeldStorage next(std::move(other));
    std::swap(recorder_, next.recorder_);
    std::swap(storage_, next.storage_);
    return *this;
  }
  HeldStorage(const HeldStorage&) = delete;
  HeldStorage& operator=(const HeldStorage&) = delete;
  ~HeldStorage() { drop(); }

  /// kNoStorage where the name is of nothing, or of a tensor without elements.
  [[nodiscard]] StorageId id() const { return storage_; }
  [[nodiscard]] bool is_of_storage() const { return storage_ != kNoStorage; }
  /// Ends the name before its scope does: `del name`.
  void drop() noexcept;
  /// Hands the reference on: it ends no more with the name.
  StorageId give_up() noexcept { return std::exchange(storage_, kNoStorage); }

 private:
  Recorder* recorder_ = nullptr;
  StorageId storage_ = kNoStorage;
};

/// The end from which a container frees what it holds: std::vector and the autograd engine's
/// buffers from the first element on, Python's list and tuple from the last (Objects/listobject.c,
/// list_dealloc).
enum class FreedFrom : std::uint8_t { first, last };

template <FreedFrom kFrom>
class HeldStorages {
 public:
  HeldStorages() = default;
  HeldStorages(HeldStorages&&) noexcept = default;
  HeldStorages& operator=(HeldStorages&& other) noexcept {
    HeldStorages next(std::move(other));
    storages_.swap(next.storages_);
    return *this;
  }
  HeldStorages(const HeldStorages&) = delete;
  HeldStorages& operator=(const HeldStorages&) = delete;
  ~HeldStorages() { drop(); }

  void push_back(HeldStorage storage) { storages_.push_back(std::move(storage)); }
  [[nodiscard]] bool empty() const { return storages_.empty(); }
  [[nodiscard]] std::size_t size() const { return storages_.size(); }
  [[nodiscard]] HeldStorage& operator[](std::size_t i) { return storages_[i]; }
  [[nodiscard]] const HeldStorage& operator[](std::size_t i) const { return storages_[i]; }
  [[nodiscard]] HeldStorage& back() { return storages_.back(); }
  auto begin() { return storages_.begin(); }
  auto end() { return storages_.end(); }

  void drop() noexcept {
    if constexpr (kFrom == FreedFrom::first) {
      for (HeldStorage& storage : storages_) storage.drop();
    } else {
      for (std::size_t i = storages_.size(); i > 0; --i) storages_[i - 1].drop();
    }
    storages_.clear();
  }

 private:
  std::vector<HeldStorage> storages_;
};

using HeldVector = HeldStorages<FreedFrom::first>;
using HeldList = HeldStorages<FreedFrom::last>;

/// `name = next` for a noun of several storages: those that it had go as its members end, in
/// reverse order, when the next are there.
template <class Noun>
void rename(Noun& name, Noun next) {
  std::swap(name, next);
}

/// Nouns of several storages, from the first on.
template <class Noun>
void drop_in_order(std::vector<Noun>& nouns) {
  for (Noun& noun : nouns) rename(noun, Noun());
  nouns.clear();
}

}  // namespace memest
