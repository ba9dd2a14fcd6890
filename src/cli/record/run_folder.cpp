#include "cli/record/run_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "memest/diag/environment.hpp"

namespace memest {
namespace {

/// LD_PRELOAD is a list that blanks and colons part: a path of it has neither.
std::string folder_without_blanks() {
  std::error_code unknown;
  const std::string folder = std::filesystem::temp_directory_path(unknown).string();
  const bool parts = folder.empty() || folder.find_first_of(" :\t") != std::string::npos;
  return parts ? "/tmp" : folder;
}

}  // namespace

RunFolder::RunFolder() {
  std::string name = folder_without_blanks() + "/memest-record-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    throw EnvironmentError("cannot make a folder '" + name + "': " + std::strerror(errno));
  }
  path_ = name;
}

RunFolder::~RunFolder() {
  std::error_code unknown;
  std::filesystem::remove_all(path_, unknown);
}

std::vector<std::filesystem::path> RunFolder::traces() const {
  std::vector<std::filesystem::path> traces;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().extension() == ".trace") traces.push_back(entry.path());
  }
  // "71.10.trace" is behind "71.2.trace": the shorter number is the smaller one.
  std::ranges::sort(traces, {}, [](const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    return std::pair(name.size(), name);
  });
  return traces;
}

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace memest
