#include "sample_log.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "memest/diag/environment.hpp"
#include "memest/reader/samples.hpp"
#include "write.hpp"

namespace memest {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
  const int error = errno;
  throw EnvironmentError(std::string("cannot ") + what + " '" + path +
                         "': " + std::strerror(error));
}

std::string whole_lines_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("read", path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return text.substr(0, text.rfind('\n') + 1);
}

std::vector<Sample> read_part(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  const std::string text = whole_lines_of(path);
  if (text.empty() || text == sample_head()) return {};
  if (!text.starts_with(sample_head())) {
    throw EnvironmentError("'" + path + "' is of another memest: remove it to measure anew");
  }
  write_file(path, text);
  const Checked<SampleTable> table = read_samples(path);
  if (table.ok()) return table.value().samples();
  throw EnvironmentError("'" + path + "' has no good sample: remove it to measure anew");
}

}  // namespace

SampleLog::SampleLog(std::string path) : path_(std::move(path)), before_(read_part(part_path())) {
  write_file(part_path(), write_samples(before_));
  file_ = std::fopen(part_path().c_str(), "ab");
  if (file_ == nullptr) fail("write", part_path());
}

SampleLog::~SampleLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void SampleLog::add(const Sample& sample) {
  const std::string line = sample_line(sample);
  const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size();
  if (!written || std::fflush(file_) != 0) fail("write", part_path());
}

void SampleLog::finish() {
  if (std::rename(part_path().c_str(), path_.c_str()) != 0) fail("write", path_);
}

}  // namespace memest
