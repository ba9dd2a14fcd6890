// Samples of a run, kept as they come: a file beside the one that they go to in the end, of which
// an interrupted run leaves whole lines and the next one goes on.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "memest/spec/gpu/sample.hpp"

namespace memest {

class SampleLog {
 public:
  /// Samples are to be in `path` in the end; until then in part_path(). Samples of an earlier run
  /// there are read; half a line at its end is dropped. Throws EnvironmentError where that file
  /// cannot be read or written, is of another form or is another run's that has not ended.
  explicit SampleLog(std::string path);

  [[nodiscard]] std::string part_path() const { return path_ + ".part"; }
  /// Those of the run before.
  [[nodiscard]] const std::vector<Sample>& before() const { return before_; }

  /// The sample is in the file before this returns. Throws EnvironmentError.
  void add(const Sample& sample);
  /// The file gets its name.
  void finish();

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

 private:
  void write(const std::string& text);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;  ///< locked
  std::vector<Sample> before_;
};

}  // namespace memest
