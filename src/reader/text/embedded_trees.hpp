// The trees of the files of configs/, parsed when the library is built: a look-up at run time asks
// no parser.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "memest/reader/embedded_configs.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// A value of an embedded tree. Nodes stand in the order of the text: behind a sequence its items,
/// behind a mapping the key and the value of each member.
struct EmbeddedNode {
  std::uint32_t word;    ///< of a scalar: where its text begins in `words`; else how many children
  std::uint16_t size;    ///< bytes of a scalar's text
  std::uint16_t line;    ///< of its span, as column and length
  std::uint16_t column;  ///< from 1
  std::uint16_t length;  ///< in bytes
  ValueKind kind;
  bool quoted;
};

/// The trees that the build wrote of all files, in the order of embedded_configs().
struct EmbeddedTrees {
  std::span<const std::uint32_t> roots;  ///< index of each file's first node
  std::span<const EmbeddedNode> nodes;
  std::string_view words;  ///< the texts of all scalars, each once
};
EmbeddedTrees embedded_trees();

/// The embedded file `path` ("gpus/h100-sxm-80gb.yaml"); null where there is none.
const EmbeddedFile* find_embedded(std::string_view path);

/// Returns the parsed tree of `file`, whose name in diagnostics is `name`.
Value embedded_value(const EmbeddedFile& file, std::string name);

}  // namespace memest
