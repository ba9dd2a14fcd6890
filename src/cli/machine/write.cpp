#include "cli/machine/write.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "cli/machine/interrupt.hpp"
#include "memest/diag/environment.hpp"

namespace memest {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw EnvironmentError(what + ": " + std::strerror(error));
}

struct OpenFile {
  /// Takes a descriptor; a negative one is a failure of `path`, which is what the user asked for.
  OpenFile(int descriptor, const std::string& path)
      : stream(descriptor < 0 ? nullptr : fdopen(descriptor, "wb")) {
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
    // close(2): a network file system or a quota may refuse only here what it took before.
    const bool closed = std::fclose(stream) == 0;
    stream = nullptr;
    return written && closed;
  }

  std::FILE* stream;
};

constexpr mode_t kNewFileMode = 0666;  ///< less the umask
constexpr mode_t kModeBits = 07777;

/// A new file beside the target that goes away unless it was renamed. Its name is one that nothing
/// has yet, be it a link that somebody put there.
struct FileBeside {
  explicit FileBeside(const std::string& path) {
    const std::string stem = path + ".memest-" + std::to_string(getpid());
    constexpr int kMostTries = 100;
    for (int i = 0; i < kMostTries && descriptor < 0; ++i) {
      name = i == 0 ? stem : stem + "-" + std::to_string(i);
      descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
      if (descriptor < 0 && errno != EEXIST) break;
    }
    if (descriptor < 0) name.clear();
  }
  FileBeside(const FileBeside&) = delete;
  FileBeside& operator=(const FileBeside&) = delete;
  ~FileBeside() {
    if (!name.empty()) std::remove(name.c_str());
  }

  std::string name;  ///< empty: there is none, or it is the target now
  int descriptor = -1;
};

void write_all(OpenFile& file, std::string_view text, const std::string& path) {
  if (std::fwrite(text.data(), 1, text.size(), file.stream) != text.size() || !file.close()) {
    fail("cannot write '" + path + "'", errno);
  }
}

/// The file that is replaced may be written, and its permissions go to the new one.
void take_mode(const std::string& target, int descriptor, const std::string& path) {
  struct stat before {};
  if (stat(target.c_str(), &before) != 0) return;  // a new file
  if (access(target.c_str(), W_OK) != 0 || fchmod(descriptor, before.st_mode & kModeBits) != 0) {
    fail("cannot write '" + path + "'", errno);
  }
}

}  // namespace

void write_stream(std::FILE* stream, std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
  // EPIPE: the reader has what it wanted (`memest ... | head`).
  if (!written && errno != EPIPE) fail("cannot write the answer", errno);
}

void write_file(const std::string& path, std::string_view text) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  // A device or a pipe is written to: a rename would put a file in its place.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    OpenFile file(open(path.c_str(), O_WRONLY | O_CLOEXEC), path);
    write_all(file, text, path);
    return;
  }
  // A link stays a link: the file that it points to is replaced.
  const std::string target =
      std::filesystem::exists(status) ? std::filesystem::canonical(path).string() : path;
  const UninterruptedWrite whole;
  // In the folder of the target: rename replaces a file at once, but not across file systems.
  FileBeside beside(target);
  OpenFile file(beside.descriptor, path);
  take_mode(target, beside.descriptor, path);
  write_all(file, text, path);
  if (std::rename(beside.name.c_str(), target.c_str()) != 0)
    fail("cannot write '" + path + "'", errno);
  beside.name.clear();
}

void make_folder(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure) fail("cannot make the folder '" + path + "'", failure.value());
}

}  // namespace memest
