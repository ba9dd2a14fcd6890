// Text inside another notation: signs that mean something there are written as it wants them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace memest {

struct Replacement {
  char sign;
  std::string_view text;
};

/// `text` with every sign of `replacements` written as its text.
std::string replaced(std::string_view text, std::span<const Replacement> replacements);

/// `text` as content or attribute of XML, made printable.
std::string xml(std::string_view text);

}  // namespace memest
