// Text inside another notation: signs that mean something there are written as it wants them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace memest {

struct Replacement {
  char sign;
  std::string_view text;
};

template <std::size_t kSize>
std::string replaced(std::string_view text, const Replacement (&replacements)[kSize]) {
  std::string result;
  for (const char sign : text) {
    std::string_view shown(&sign, 1);
    for (const Replacement& row : replacements) {
      if (row.sign == sign) shown = row.text;
    }
    result += shown;
  }
  return result;
}

/// `text` as content or attribute of XML, made printable.
std::string xml(std::string_view text);

}  // namespace memest
