// The tree of a YAML or JSON text, with the place of every token: the tree that the readers walk.
// Scalars keep their text as written; a reader asks for the type that it expects. yaml-cpp ends
// here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"

namespace memest {

enum class ValueKind : std::uint8_t { null, scalar, sequence, mapping };

struct Member;

struct Value {
  ValueKind kind = ValueKind::null;
  std::string text;     ///< of a scalar: JSON strings unescaped, numbers and booleans as written
  bool quoted = false;  ///< a scalar in quotes is a string whatever it looks like
  std::vector<Value> items;     ///< of a sequence
  std::vector<Member> members;  ///< of a mapping, in the order of the text, keys unique
  SourceSpan
      span;  ///< the token; of a sequence or mapping its first token; of an empty value its key

  /// The member's value, null pointer where there is none or this is no mapping.
  [[nodiscard]] const Value* find(std::string_view key) const;
};

struct Member {
  std::string key;
  SourceSpan key_span;
  Value value;
};

/// Parses one YAML document. Refuses, each with its place: duplicate keys, tabs as indentation,
/// more than kMaxDepth levels, more than kMaxValues values or kMaxTextSize bytes of scalars (alias
/// bombs), an anchor within itself, tags and merge keys, binary or non-UTF-8 text, several
/// documents, no document.
Checked<Value> parse_yaml(const std::shared_ptr<const SourceText>& source);
/// As above, with the limits of another kind of text (text.hpp).
struct TextKind;
Checked<Value> parse_yaml(const std::shared_ptr<const SourceText>& source, const TextKind& kind);

/// Parses one JSON text (RFC 8259, nothing beyond it), with the same limits.
Checked<Value> parse_json(const std::shared_ptr<const SourceText>& source);

/// Parses a JSON text a line (JSON Lines); blank lines are passed over. The limits of a document
/// hold for each line.
Checked<std::vector<Value>> parse_json_lines(const std::shared_ptr<const SourceText>& source);

inline constexpr int kMaxDepth = 64;                ///< levels of sequences and mappings
inline constexpr std::size_t kMaxValues = 100'000;  ///< of a document, aliases expanded
inline constexpr std::size_t kMaxTextSize = std::size_t{4} << 20;  ///< bytes of a document

}  // namespace memest
