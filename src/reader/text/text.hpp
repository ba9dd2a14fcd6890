// Places in a text, and whether bytes are text at all: what both parsers ask before they read a
// token.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "reader/text/value.hpp"

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

/// The first line without its end, behind which `rest` begins then. Lines end as Windows ends them
/// too. `rest` is not empty.
std::string_view take_line(std::string_view& rest);

/// How large a text may be, and what to say of one that is larger or empty.
struct TextKind {
  std::size_t most_bytes;
  std::string_view large_hint;
  std::string_view empty_hint;
  std::size_t most_values = kMaxValues;  ///< of its document, aliases expanded
};
inline constexpr TextKind kSpecText{kMaxTextSize, "a spec or a model config is a few kilobytes",
                                    "`memest init` writes a starter spec"};
inline constexpr TextKind kRecordsText{std::size_t{64} << 20, "records may stand in several files",
                                       "a record is a line of JSON"};
/// A thousand specs of a hundred lines each have a few hundred thousand values.
inline constexpr TextKind kLockText{std::size_t{64} << 20, "a lock holds a repository's specs",
                                    "`memest check --update` writes a lock",
                                    std::size_t{10'000'000}};

/// Without the blanks of both ends.
std::string_view trimmed(std::string_view line);

/// "the file is larger than 4 MiB".
std::string too_large_text(std::string_view noun, const TextKind& kind);

/// Why the text cannot be read at all: empty, larger than `kind` allows, binary, not UTF-8. None
/// for a text.
std::optional<Diagnostic> find_text_fault(const LineIndex& lines, const TextKind& kind = kSpecText);

/// Bytes of the UTF-8 sequence that starts `text`; 0 where there is no valid one (RFC 3629:
/// shortest form, no surrogates).
std::size_t utf8_length(std::string_view text);

/// Whether a UTF-8 sequence is no control character and nothing that reorders, hides or breaks the
/// text around it: whether it may reach a terminal or a comment as it is.
bool is_harmless(std::string_view character);

/// A name that somebody else gave, on the one line of a comment: what is not harmless is a question
/// mark.
std::string harmless_text(std::string_view name);

}  // namespace memest
