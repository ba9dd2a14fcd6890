// Reads what a page for a browser carries for its script.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace memest {

/// RFC 4648.
inline std::string bytes_of_base64(std::string_view text) {
  constexpr std::string_view kSigns =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t word = 0;
  int bits = 0;
  for (const char sign : text) {
    const std::size_t value = kSigns.find(sign);
    if (value == std::string_view::npos) break;
    word = word << 6U | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits >= 8) bytes += static_cast<char>(word >> static_cast<unsigned>(bits -= 8) & 255U);
  }
  return bytes;
}

/// The JSON in a page's element #data.
inline nlohmann::json data_in(const std::string& page) {
  constexpr std::string_view kMark = "<script type=\"text/plain\" id=\"data\">";
  const std::size_t begin = page.find(kMark) + kMark.size();
  const std::string packed =
      bytes_of_base64(std::string_view(page).substr(begin, page.find('<', begin) - begin));
  for (std::size_t room = 1U << 20U; room <= 1U << 28U; room *= 4) {
    std::string text(room, '\0');
    uLongf size = room;
    const int code = uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                reinterpret_cast<const Bytef*>(packed.data()), packed.size());
    if (code == Z_OK) return nlohmann::json::parse(text.substr(0, size));
  }
  throw std::runtime_error("the page has no data");
}

}  // namespace memest
