// The allocator's options: `allocator` of a spec, and PyTorch's own text of them.
#pragma once

#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/allocator.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// A part of a text, and where it stands.
struct PlacedText {
  std::string_view text;
  SourceSpan span;

  /// `length` bytes from `offset` on.
  [[nodiscard]] PlacedText part(std::size_t offset, std::size_t length) const;
  /// Without the blanks around it.
  [[nodiscard]] PlacedText trimmed() const;
};

/// `allocator` as check_table let it pass; null where it is left out.
AllocatorSettings read_allocator(const Value* written, Diagnostics& diagnostics);

/// Reads PYTORCH_CUDA_ALLOC_CONF's text: `expandable_segments:True,max_split_size_mb:128`.
AllocatorSettings read_allocator_text(const PlacedText& written, Diagnostics& diagnostics);

}  // namespace memest
