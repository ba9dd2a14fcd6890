// Files as C++ string literals, for the programs that embed them.
#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace memest {

/// Bytes of a literal: compilers need not accept longer ones than 64 KiB, and some accept only 16.
inline constexpr std::size_t kLiteralLimit = 15000;

inline std::string read_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// `text` as adjacent literals.
inline std::string literals_of(std::string_view text) {
  constexpr std::string_view kDigits = "01234567";
  std::string out = "\n    \"";
  std::size_t size = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte >= 0x20U && byte < 0x7FU && c != '?') {  // two question marks: a trigraph
      out += c;
    } else {
      out += {'\\', kDigits[byte >> 6U], kDigits[(byte >> 3U) & 7U], kDigits[byte & 7U]};
    }
    ++size;
    if (c == '\n' || size % kLiteralLimit == 0) out += "\"\n    \"";
  }
  return out + "\"sv";
}

}  // namespace memest
