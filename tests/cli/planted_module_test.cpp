// The GPU's module is opened from beside the program or from where the loader looks, never from the
// current folder, which is whose it may be.
#include <unistd.h>

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <string>

#include "shell.hpp"

namespace memest {
namespace {

namespace fs = std::filesystem;

/// A program in one folder and a stranger's module in another, which is the current one.
class Planted {
 public:
  explicit Planted(const std::string& module)
      : root_(fs::temp_directory_path() / ("memest-planted-" + std::to_string(getpid()))) {
    fs::create_directories(root_ / "bin");
    fs::create_directories(root_ / "current" / "lib");
    fs::copy_file(MEMEST_BINARY, root_ / "bin" / "memest", fs::copy_options::overwrite_existing);
    fs::copy_file(MEMEST_PLANTED_MODULE, root_ / "current" / module,
                  fs::copy_options::overwrite_existing);
  }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
  ~Planted() { fs::remove_all(root_); }

  /// `selftest` of the program in the current folder; LD_LIBRARY_PATH as given.
  [[nodiscard]] std::string selftest(const std::string& library_path) const {
    return "cd " + (root_ / "current").string() + " && MEMEST_TEST_MARK=" + mark().string() +
           " LD_LIBRARY_PATH=" + library_path + " " + (root_ / "bin" / "memest").string() +
           " selftest";
  }
  [[nodiscard]] fs::path mark() const { return root_ / "mark"; }
  [[nodiscard]] fs::path current() const { return root_ / "current"; }

 private:
  fs::path root_;
};

/// `command` in a namespace whose /proc is empty.
std::string without_proc(const std::string& command) {
  return "unshare --map-root-user --mount sh -c 'mount -t tmpfs none /proc && " + command + "'";
}

TEST_CASE("a module in the current folder is not loaded") {
  const Planted planted(GENERATE("libmemest_gpu.so", "lib/libmemest_gpu.so"));
  const bool proc = GENERATE(true, false);
  if (!proc && run_shell(without_proc("true")).code != 0) SKIP("this machine keeps /proc");
  const std::string asked = planted.selftest("");
  const Ran ran = run_shell(proc ? asked : without_proc(asked));
  INFO(ran.out << ran.err);
  CHECK((ran.code == 0 || ran.code == 3));
  CHECK_FALSE(fs::exists(planted.mark()));
}

#ifdef MEMEST_HAS_CUDA
TEST_CASE("the planted module leaves its mark where the loader is told to look for it") {
  const Planted planted("libmemest_gpu.so");
  const Ran ran = run_shell(planted.selftest(planted.current().string()));
  INFO(ran.out << ran.err);
  CHECK(ran.code == 3);
  CHECK(fs::exists(planted.mark()));
}
#endif

}  // namespace
}  // namespace memest
