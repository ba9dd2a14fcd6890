// Places in a text, and whether bytes are text at all: what both parsers ask before they read a
// token.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "memest/diag/diagnostic.hpp"

namespace memest {

/// Finds line and column of byte offsets of one text.
class LineIndex {
 public:
  explicit LineIndex(std::shared_ptr<const SourceText> source);

  /// The span of `length` bytes at `offset`, cut at the end of its line.
  [[nodiscard]] SourceSpan span(std::size_t offset, std::size_t length) const;
  [[nodiscard]] const std::shared_ptr<const SourceText>& source() const { return source_; }

 private:
  std::shared_ptr<const SourceText> source_;
  std::vector<std::size_t> line_starts_;
};

/// Why the text cannot be read at all: empty, larger than kMaxTextSize, binary, not UTF-8. None for
/// a text.
std::optional<Diagnostic> find_text_fault(const LineIndex& lines);

/// Bytes of the UTF-8 sequence that starts `text`; 0 where there is no valid one (RFC 3629:
/// shortest form, no surrogates).
std::size_t utf8_length(std::string_view text);

}  // namespace memest
