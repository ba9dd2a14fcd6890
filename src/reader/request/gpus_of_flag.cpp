#include "reader/request/gpus_of_flag.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "memest/units/int128.hpp"
#include "reader/text/merge.hpp"
#include "reader/text/scalar.hpp"

namespace memest {

GpusOfFlag::GpusOfFlag(std::int64_t gpus, Value& root)
    : gpus_(gpus),
      root_(root),
      span_{std::make_shared<const SourceText>(SourceText{"--gpus", std::to_string(gpus)}), 1, 1,
            static_cast<std::int32_t>(std::to_string(gpus).size())} {}

void GpusOfFlag::forget() {
  for (const auto& [section, key] : {std::pair{"hardware", "count"}, {"parallelism", "data"}}) {
    const auto found = std::ranges::find(root_.members, section, &Member::key);
    if (found == root_.members.end()) continue;
    std::erase_if(found->value.members, [key = key](const Member& m) { return m.key == key; });
  }
}

void GpusOfFlag::write(Diagnostics& diagnostics) {
  put("hardware", "count", gpus_);
  std::int64_t others = 1;
  std::string text;
  const Value* parallelism = root_.find("parallelism");
  if (parallelism != nullptr && parallelism->find("data") != nullptr) return;
  for (const char* key : {"tensor", "pipeline", "context"}) {
    const Value* written = parallelism == nullptr ? nullptr : parallelism->find(key);
    const std::int64_t ranks =
        std::clamp<std::int64_t>(as_count(written).value_or(1), 1, gpus_ + 1);
    if (ranks == 1) continue;
    others = std::min(gpus_ + 1, checked_multiply(others, ranks));
    text += (text.empty() ? "" : " x ") + std::string(key) + " " + *as_text(written);
  }
  if (gpus_ % others == 0) return put("parallelism", "data", gpus_ / others);
  diagnostics.push_back(error_at(
      span_, std::to_string(gpus_) + " GPUs do not divide into " + text,
      "data-parallel ranks are what tensor, pipeline and context ranks leave of the GPUs"));
}

/// A section that is no mapping is refused by name later on.
void GpusOfFlag::put(const char* section, const char* key, std::int64_t number) {
  const Value* written = root_.find(section);
  if (written != nullptr && written->kind != ValueKind::mapping &&
      written->kind != ValueKind::null) {
    return;
  }
  Value value;
  value.kind = ValueKind::scalar;
  value.text = std::to_string(number);
  value.span = span_;
  for (const char* name : {key, section}) {
    Value mapping;
    mapping.kind = ValueKind::mapping;
    mapping.span = span_;
    mapping.members.push_back({name, span_, std::move(value)});
    value = std::move(mapping);
  }
  merge(root_, std::move(value));
}

}  // namespace memest
