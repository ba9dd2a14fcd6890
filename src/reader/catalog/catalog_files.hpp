// The files of configs/ as trees. That an embedded file is well formed is our affair: a test holds
// every one to its keys, so that no look-up has to.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memest/spec/gpu/gpu.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The tree of the embedded file `path`.
Value read_embedded(std::string_view path);
/// Faults of the embedded file by `keys`: none in a program that was built rightly.
Diagnostics faults_of_embedded(std::string_view path, std::span<const Key> keys);

/// Embedded file of `folder` by its name, or the diagnostic that names the nearest one.
Checked<Value> find_in_catalog(std::string_view folder, const std::string& name);

std::string text_at(const Value& table, std::string_view key);
bool flag_at(const Value& table, std::string_view key);
std::int64_t count_at(const Value& table, std::string_view key);
std::optional<DType> type_at(const Value& table, std::string_view key);

/// Returns `read` of each entry of the list `key`.
template <class T>
std::vector<T> entries_of(const Value& file, std::string_view key, T (*read)(const Value&)) {
  std::vector<T> entries;
  if (const Value* list = file.find(key)) {
    for (const Value& entry : list->items) entries.push_back(read(entry));
  }
  return entries;
}

GpuSpec gpu_of_file(const Value& file);

/// Slugs, sorted, and behind them the aliases.
std::vector<std::string> all_gpu_names();

}  // namespace memest
