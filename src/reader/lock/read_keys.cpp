// A spec made of its leaves again.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "memest/reader/written_spec.hpp"
#include "reader/job/read_job.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"
#include "reader/text/value.hpp"

namespace memest {
namespace {

constexpr std::size_t kMostItems = 100'000;  ///< of a list; kMaxValues are read of a document

/// Puts leaves into a tree; every value stands in the spec's text, at no line.
class LeafTree {
 public:
  explicit LeafTree(const std::string& path)
      : source_(std::make_shared<const SourceText>(SourceText{path, ""})) {
    root_.kind = ValueKind::mapping;
    root_.span.source = source_;
  }

  /// A list's items come in their order; what does not fit there is left out, and the spec then
  /// misses it by name.
  void put(std::string_view key, const std::string& text) {
    Value* value = &root_;
    while (!key.empty() && value != nullptr) {
      const bool is_item = key.front() == '[';
      if (key.front() == '.') key.remove_prefix(1);
      const std::size_t end =
          std::min(is_item ? key.find(']') + 1 : key.find_first_of(".["), key.size());
      if (end == 0) return;
      value = is_item ? item(*value, key.substr(1, end - 2)) : member(*value, key.substr(0, end));
      key.remove_prefix(end);
    }
    if (value == nullptr) return;
    value->kind = text.empty() ? ValueKind::null : ValueKind::scalar;
    if (text == "{}") value->kind = ValueKind::mapping;
    if (text == "[]") value->kind = ValueKind::sequence;
    if (value->kind == ValueKind::scalar) value->text = text;
  }

  [[nodiscard]] Value tree() && { return std::move(root_); }

 private:
  Value* item(Value& list, std::string_view number) {
    const auto index = integer_of(number);
    list.kind = ValueKind::sequence;
    if (!index || *index < 0 || static_cast<std::size_t>(*index) > kMostItems) return nullptr;
    const auto place = static_cast<std::size_t>(*index);
    if (list.items.size() <= place) list.items.resize(place + 1);
    list.items[place].span.source = source_;
    return &list.items[place];
  }

  Value* member(Value& table, std::string_view name) {
    table.kind = ValueKind::mapping;
    const auto found = std::ranges::find(table.members, name, &Member::key);
    if (found != table.members.end()) return &found->value;
    SourceSpan span;
    span.source = source_;
    Value value;
    value.span = span;
    table.members.push_back({std::string(name), std::move(span), std::move(value)});
    return &table.members.back().value;
  }

  std::shared_ptr<const SourceText> source_;
  Value root_;
};

}  // namespace

Checked<Job> read_job(const std::vector<SpecLeaf>& keys, const std::string& path) {
  LeafTree tree(path);
  for (const SpecLeaf& key : keys) tree.put(key.key, key.value);
  return read_job(std::move(tree).tree(), stem_of(path));
}

}  // namespace memest
