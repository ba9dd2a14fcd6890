#include "cli/device/sample_log.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "memest/diag/environment.hpp"
#include "memest/reader/samples.hpp"

namespace memest {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
  const int error = errno;
  throw EnvironmentError(std::string("cannot ") + what + " '" + path +
                         "': " + std::strerror(error));
}

using OpenLog = std::unique_ptr<std::FILE, SampleLog::Close>;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("read", path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<Sample> read_part(const std::string& path) {
  std::string text = text_of(path);
  const std::size_t whole = text.rfind('\n') + 1;
  // A run that was killed leaves a part of a line, whose number would be read as another.
  if (whole < text.size() && truncate(path.c_str(), static_cast<off_t>(whole)) != 0) {
    fail("write", path);
  }
  text.erase(whole);
  if (text.empty() || text == sample_head()) return {};
  if (!text.starts_with(sample_head())) {
    throw EnvironmentError("'" + path + "' is of another memest: remove it to measure anew");
  }
  const Checked<SampleTable> table = read_samples(path);
  if (table.ok()) return table.value().samples();
  throw EnvironmentError("'" + path + "' has no good sample: remove it to measure anew");
}

/// Whether `path` still names the open file: a run that ended in between has renamed it.
bool names(const std::string& path, int descriptor) {
  struct stat by_name {};
  struct stat open_file {};
  return stat(path.c_str(), &by_name) == 0 && fstat(descriptor, &open_file) == 0 &&
         by_name.st_dev == open_file.st_dev && by_name.st_ino == open_file.st_ino;
}

/// The file at `path`, made where there is none, and nobody else's until it is closed.
OpenLog open_alone(const std::string& path) {
  constexpr mode_t kNewFileMode = 0666;  // less the umask
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kNewFileMode);
  if (descriptor < 0) fail("write", path);
  OpenLog file(fdopen(descriptor, "ab"));
  if (file == nullptr) fail("write", path);
  // The lock belongs to the open file: it goes with the process, however that ends.
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && names(path, descriptor)) return file;
  throw EnvironmentError("another calibration writes '" + path +
                         "': wait for it, or choose another --output");
}

}  // namespace

SampleLog::SampleLog(std::string path) : path_(std::move(path)), file_(open_alone(part_path())) {
  before_ = read_part(part_path());
  // An empty file gets its head, and rows that could not be read go.
  const std::string text = write_samples(before_);
  if (text == text_of(part_path())) return;
  if (ftruncate(fileno(file_.get()), 0) != 0) fail("write", part_path());
  write(text);
}

void SampleLog::write(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  if (!written || std::fflush(file_.get()) != 0) fail("write", part_path());
}

void SampleLog::add(const Sample& sample) { write(sample_line(sample)); }

void SampleLog::finish() {
  if (std::rename(part_path().c_str(), path_.c_str()) != 0) fail("write", path_);
}

}  // namespace memest
