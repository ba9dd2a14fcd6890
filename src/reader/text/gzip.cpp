#include "reader/text/gzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

#include "memest/diag/environment.hpp"

namespace memest {
namespace {

struct Close {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using File = std::unique_ptr<gzFile_s, Close>;

Diagnostic whole_file(const std::string& path, std::string message, std::string hint = {}) {
  const auto source = std::make_shared<const SourceText>(SourceText{path, ""});
  return {Severity::error, {source, 0, 0, 0}, std::move(message), std::move(hint)};
}

/// zlib's own words, without the path that it begins them with; empty where it has none to say.
std::string error_of(gzFile_s* file, const std::string& path) {
  int code = Z_OK;
  std::string_view words = gzerror(file, &code);
  if (code == Z_OK || code == Z_STREAM_END) return {};
  if (code == Z_ERRNO) return std::strerror(errno);
  if (words.starts_with(path + ": ")) words.remove_prefix(path.size() + 2);
  return std::string(words);
}

}  // namespace

Checked<SourcePointer> read_compressed(const std::string& path, std::size_t most) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    return whole_file(path, "this is a directory", "name a file in it");
  }
  errno = 0;
  // zlib hands on a file without gzip's first two bytes as it is.
  const File file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    throw EnvironmentError("cannot open '" + path + "': " + std::strerror(errno));
  }
  std::string text;
  constexpr std::size_t kChunk = std::size_t{1} << 20U;
  std::string chunk(kChunk, '\0');
  while (text.size() <= most) {
    const int read = gzread(file.get(), chunk.data(), static_cast<unsigned>(kChunk));
    if (read <= 0) break;
    text.append(chunk, 0, static_cast<std::size_t>(read));
  }
  if (text.size() > most) {
    return whole_file(path, "the text is larger than " + std::to_string(most >> 20U) + " MiB");
  }
  if (const std::string error = error_of(file.get(), path); !error.empty()) {
    return whole_file(path, "the file cannot be read: " + error);
  }
  return SourcePointer(std::make_shared<const SourceText>(SourceText{path, std::move(text)}));
}

std::string first_bytes(const std::string& path, std::size_t most) {
  const File file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) return {};
  std::string text(most, '\0');
  const int read = gzread(file.get(), text.data(), static_cast<unsigned>(most));
  text.resize(static_cast<std::size_t>(std::max(read, 0)));
  return text;
}

}  // namespace memest
