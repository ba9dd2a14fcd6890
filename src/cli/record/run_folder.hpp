// The folder of one run: what its processes write, and a way to the null device that has no blank
// in it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace memest {

/// A folder below the system's for temporary files, which goes away with it. Throws
/// EnvironmentError where it cannot be made.
class RunFolder {
 public:
  RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path journal() const { return path_ / "journal"; }
  /// Traces of the processes that used a GPU, by name.
  [[nodiscard]] std::vector<std::filesystem::path> traces() const;

 private:
  std::filesystem::path path_;
};

/// A file's text; empty where there is none.
std::string text_of_file(const std::filesystem::path& path);

}  // namespace memest
