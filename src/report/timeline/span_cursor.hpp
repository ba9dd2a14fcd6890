// The phase that each event of a timeline belongs to, asked in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memest/memory/timeline.hpp"

namespace memest {

class SpanCursor {
 public:
  explicit SpanCursor(const Timeline& timeline) : timeline_(timeline) {}

  /// The span that holds `event`, null between two; `event` is never less than the one before.
  const Span* at(std::uint32_t event) {
    while (next_ < timeline_.spans.size() && timeline_.spans[next_].end <= event) ++next_;
    if (next_ == timeline_.spans.size() || timeline_.spans[next_].begin > event) return nullptr;
    return &timeline_.spans[next_];
  }

 private:
  const Timeline& timeline_;
  std::size_t next_ = 0;
};

}  // namespace memest
