#include "report/html/packed.hpp"

#include <zlib.h>

#include <cstdint>

#include "memest/diag/expect.hpp"
#include "report/html/assets.hpp"

namespace memest {
namespace {

const Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<const Bytef*>(text.data());  // zlib's own type of a byte
}
Bytef* bytes_of(std::string& text) { return reinterpret_cast<Bytef*>(text.data()); }

/// RFC 4648.
std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kSigns =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto byte = [&bytes](std::size_t i) -> std::uint32_t {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U;
  };
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::uint32_t word = byte(i) << 16U | byte(i + 1) << 8U | byte(i + 2);
    for (unsigned shift = 18;; shift -= 6) {
      out += kSigns[word >> shift & 63U];
      if (shift == 0) break;
    }
  }
  const std::size_t missing = (3 - bytes.size() % 3) % 3;
  return out.replace(out.size() - missing, missing, missing, '=');
}

}  // namespace

std::string packed(std::string_view text) {
  std::string out(compressBound(text.size()), '\0');
  uLongf size = out.size();
  const int code = compress2(bytes_of(out), &size, bytes_of(text), text.size(), Z_BEST_COMPRESSION);
  expect(code == Z_OK, "a buffer of zlib's bound is large enough");
  return base64_of(std::string_view(out).substr(0, size));
}

std::string chart_library() {
  std::string text(kChartLibrarySize, '\0');
  if (text.empty()) return text;
  uLongf size = text.size();
  const int code = uncompress(bytes_of(text), &size, bytes_of(kChartLibrary), kChartLibrary.size());
  expect(code == Z_OK && size == text.size(), "the library of charts unpacks");
  return text;
}

}  // namespace memest
