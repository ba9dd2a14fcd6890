#include "report/diff/changed_keys.hpp"

#include <algorithm>
#include <string_view>

namespace memest {
namespace {

constexpr std::string_view kDefault = "default";
/// `optimizer: adamw` is short for `optimizer: {name: adamw}`.
constexpr std::string_view kName = ".name";

const PlacedKey* find(const std::vector<PlacedKey>& keys, const std::string& key) {
  const auto found = std::ranges::find(keys, key, &PlacedKey::key);
  return found == keys.end() ? nullptr : &*found;
}

KeySide side_of(const std::vector<PlacedKey>& written, const std::vector<PlacedKey>& resolved,
                const std::string& key) {
  if (const PlacedKey* there = find(written, key)) return {there->value, there->place};
  for (const std::string& name : {key, key + std::string(kName)}) {
    if (const PlacedKey* there = find(resolved, name)) return {there->value, std::string(kDefault)};
  }
  return {"", ""};
}

/// Whether a spec writes the key, keys below it, or it in the short form of its name.
bool writes(const std::vector<PlacedKey>& written, const std::string& key) {
  return std::ranges::any_of(written, [&](const PlacedKey& other) {
    return other.key == key || other.key.starts_with(key + ".") ||
           other.key + std::string(kName) == key;
  });
}

}  // namespace

bool DifferingKey::is_default() const { return a.place == kDefault && b.place == kDefault; }

std::vector<DifferingKey> changed_keys(const ComparedSpec& a, const ComparedSpec& b) {
  const std::vector<PlacedKey> resolved_a = resolved_keys(a.job);
  const std::vector<PlacedKey> resolved_b = resolved_keys(b.job);
  std::vector<DifferingKey> rows;
  const auto add = [&](const std::string& key) {
    rows.push_back({key, side_of(a.keys, resolved_a, key), side_of(b.keys, resolved_b, key)});
  };
  for (const PlacedKey& key : a.keys) {
    const PlacedKey* other = find(b.keys, key.key);
    if (other == nullptr || other->value != key.value) add(key.key);
  }
  for (const PlacedKey& key : b.keys) {
    if (find(a.keys, key.key) == nullptr) add(key.key);
  }
  const auto add_default = [&](const PlacedKey& key, const std::vector<PlacedKey>& others) {
    if (writes(a.keys, key.key) || writes(b.keys, key.key)) return;
    const PlacedKey* other = find(others, key.key);
    if (other == nullptr || other->value != key.value) add(key.key);
  };
  for (const PlacedKey& key : resolved_a) add_default(key, resolved_b);
  for (const PlacedKey& key : resolved_b) {
    if (find(resolved_a, key.key) == nullptr) add_default(key, resolved_a);
  }
  return rows;
}

}  // namespace memest
