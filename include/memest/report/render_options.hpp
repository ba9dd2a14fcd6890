// Traits of a text's reader: how wide the text is, whether UTF-8 is known and whether colours are
// shown. cli decides them from the terminal and the environment; report only obeys.
#pragma once

#include <cstddef>

namespace memest {

inline constexpr std::size_t kTextColumns = 100;

struct RenderOptions {
  bool color = false;   ///< ANSI escape sequences
  bool unicode = true;  ///< false: Φ becomes Phi, · becomes *, ✗ becomes x, ...
  std::size_t columns = kTextColumns;
  bool verbose = false;  ///< formulas are written out, however long
};

}  // namespace memest
