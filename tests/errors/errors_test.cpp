// Bad specs and the exact text that they must produce. A case is NAME.txt, the text, beside
// NAME.yaml or NAME.json, the spec, beside NAME.trace, an allocator trace, or beside NAME.args, the
// arguments of the command line, one a line.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "memest/reader/read_job.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/report/diagnostics.hpp"

namespace memest {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<fs::path> expected_texts() {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(".")) {
    if (entry.path().extension() == ".txt" && entry.path().stem() != "CMakeLists") {
      paths.push_back(entry.path().filename());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

ReadRequest request_of(const fs::path& expected) {
  ReadRequest request;
  const fs::path arguments = fs::path(expected).replace_extension(".args");
  if (fs::exists(arguments)) {
    std::istringstream lines(text_of(arguments));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("--set ")) {
        request.overrides.push_back({"--set", line.substr(6)});
      } else if (line.starts_with("--gpus ")) {
        request.gpus = std::stoll(line.substr(7));
      } else {
        request.files.push_back(line);
      }
    }
    return request;
  }
  for (const char* extension : {".yaml", ".json"}) {
    const fs::path spec = fs::path(expected).replace_extension(extension);
    if (fs::exists(spec)) request.files.push_back(spec.string());
  }
  return request;
}

/// What the reader says; nothing where it takes the text.
Diagnostics refusal_of(const fs::path& expected) {
  const fs::path trace = fs::path(expected).replace_extension(".trace");
  if (fs::exists(trace)) {
    const Checked<AllocatorTrace> read = read_trace(trace.string());
    CHECK_FALSE(read.ok());
    return read.diagnostics();
  }
  const ReadRequest request = request_of(expected);
  REQUIRE_FALSE(request.files.empty());
  const Checked<Job> job = read_job(request);
  CHECK_FALSE(job.ok());
  return job.diagnostics();
}

}  // namespace

TEST_CASE("every bad text prints exactly the text that stands beside it") {
  fs::current_path(MEMEST_ERROR_CASES);
  const std::vector<fs::path> cases = expected_texts();
  CHECK(cases.size() > 30);
  for (const fs::path& expected : cases) {
    INFO(expected.string());
    CHECK(render(refusal_of(expected), {}) == text_of(expected));
  }
}

}  // namespace memest
