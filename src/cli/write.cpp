#include "write.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "memest/diag/environment.hpp"

namespace memest {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw EnvironmentError(what + ": " + std::strerror(error));
}

struct OpenFile {
  /// Opens `name`; a failure is told of `path`, which is what the user asked for.
  OpenFile(const std::string& name, const std::string& path)
      : stream(std::fopen(name.c_str(), "wb")) {
    if (stream == nullptr) fail("cannot write '" + path + "'", errno);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (stream != nullptr) std::fclose(stream);
  }
  /// Closes and says whether everything reached the file; errno is set otherwise.
  bool close() {
    const bool written = std::fflush(stream) == 0;
    const bool closed = std::fclose(stream) == 0;
    stream = nullptr;
    return written && closed;
  }

  std::FILE* stream;
};

/// A file beside the target that goes away unless it was renamed.
struct FileBeside {
  explicit FileBeside(const std::string& path)
      : name(path + ".memest-" + std::to_string(getpid())) {}
  FileBeside(const FileBeside&) = delete;
  FileBeside& operator=(const FileBeside&) = delete;
  ~FileBeside() {
    if (!name.empty()) std::remove(name.c_str());
  }

  std::string name;
};

void write_all(OpenFile& file, std::string_view text, const std::string& path) {
  if (std::fwrite(text.data(), 1, text.size(), file.stream) != text.size() || !file.close()) {
    fail("cannot write '" + path + "'", errno);
  }
}

}  // namespace

void write_stream(std::FILE* stream, std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
  if (!written && errno != EPIPE) fail("cannot write the answer", errno);
}

void write_file(const std::string& path, std::string_view text) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    OpenFile file(path, path);
    write_all(file, text, path);
    return;
  }
  // A link stays a link: the file that it points to is replaced.
  const std::string target =
      std::filesystem::exists(status) ? std::filesystem::canonical(path).string() : path;
  FileBeside beside(target);
  OpenFile file(beside.name, path);
  write_all(file, text, path);
  if (std::rename(beside.name.c_str(), target.c_str()) != 0)
    fail("cannot write '" + path + "'", errno);
  beside.name.clear();
}

}  // namespace memest
