// Values that are made once for each key, by whichever thread asks first.
#pragma once

#include <map>
#include <mutex>
#include <optional>

namespace memest {

template <class Key, class Value>
class Memo {
 public:
  /// The value of `key`; `make` is called where it is not there yet and answers the same in every
  /// thread. The reference stays good as long as this lives.
  template <class Make>
  const Value& at(const Key& key, const Make& make) {
    Entry& entry = [&]() -> Entry& {
      const std::scoped_lock lock(mutex_);
      return entries_[key];
    }();
    std::call_once(entry.made, [&] { entry.value.emplace(make()); });
    return *entry.value;
  }

 private:
  struct Entry {
    std::once_flag made;
    std::optional<Value> value;
  };
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

}  // namespace memest
