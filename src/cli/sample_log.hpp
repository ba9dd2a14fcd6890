// Samples of a run, kept as they come: a file beside the one that they go to in the end, of which
// an interrupted run leaves whole lines and the next one goes on.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "memest/spec/sample.hpp"

namespace memest {

class SampleLog {
 public:
  /// Samples are to be in `path` in the end; until then in part_path(). What a run before left
  /// there is read; half a line at its end is dropped. Throws EnvironmentError where that file
  /// cannot be read or written or is of another form.
  explicit SampleLog(std::string path);
  SampleLog(const SampleLog&) = delete;
  SampleLog& operator=(const SampleLog&) = delete;
  ~SampleLog();

  [[nodiscard]] std::string part_path() const { return path_ + ".part"; }
  /// Those of the run before.
  [[nodiscard]] const std::vector<Sample>& before() const { return before_; }

  /// The sample is in the file before this returns. Throws EnvironmentError.
  void add(const Sample& sample);
  /// The file gets its name.
  void finish();

 private:
  std::string path_;
  std::vector<Sample> before_;
  std::FILE* file_ = nullptr;
};

}  // namespace memest
