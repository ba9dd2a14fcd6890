#include "reader/text/embedded_trees.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace memest {
namespace {

/// Makes values of nodes, one after the other.
class TreeReader {
 public:
  TreeReader(const EmbeddedTrees& trees, std::size_t root, std::shared_ptr<const SourceText> source)
      : trees_(trees), next_(root), source_(std::move(source)) {}

  Value read() {
    const EmbeddedNode& node = trees_.nodes[next_++];
    Value value;
    value.kind = node.kind;
    value.quoted = node.quoted;
    value.span = span_of(node);
    switch (node.kind) {
      case ValueKind::null:
        break;
      case ValueKind::scalar:
        value.text = text_of(node);
        break;
      case ValueKind::sequence:
        value.items.reserve(node.word);
        for (std::uint32_t i = 0; i < node.word; ++i) value.items.push_back(read());
        break;
      case ValueKind::mapping:
        value.members.reserve(node.word);
        for (std::uint32_t i = 0; i < node.word; ++i) value.members.push_back(read_member());
        break;
    }
    return value;
  }

 private:
  Member read_member() {
    const EmbeddedNode& key = trees_.nodes[next_++];
    return {text_of(key), span_of(key), read()};
  }

  [[nodiscard]] std::string text_of(const EmbeddedNode& node) const {
    return std::string(trees_.words.substr(node.word, node.size));
  }

  [[nodiscard]] SourceSpan span_of(const EmbeddedNode& node) const {
    return {.source = source_, .line = node.line, .column = node.column, .length = node.length};
  }

  EmbeddedTrees trees_;
  std::size_t next_;
  std::shared_ptr<const SourceText> source_;
};

}  // namespace

const EmbeddedFile* find_embedded(std::string_view path) {
  const std::span<const EmbeddedFile> files = embedded_configs();
  const auto file = std::lower_bound(
      files.begin(), files.end(), path,
      [](const EmbeddedFile& left, std::string_view right) { return left.path < right; });
  return file != files.end() && file->path == path ? &*file : nullptr;
}

Value embedded_value(const EmbeddedFile& file, std::string name) {
  const EmbeddedTrees trees = embedded_trees();
  const auto index = static_cast<std::size_t>(&file - embedded_configs().data());
  auto source =
      std::make_shared<const SourceText>(SourceText{std::move(name), std::string(file.text)});
  return TreeReader(trees, trees.roots[index], std::move(source)).read();
}

}  // namespace memest
