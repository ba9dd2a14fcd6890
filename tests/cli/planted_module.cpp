// A stranger's libmemest_gpu.so: leaves a mark where it is loaded.
#include <cstdio>
#include <cstdlib>

namespace {

__attribute__((constructor)) void leave_mark() {
  const char* path = std::getenv("MEMEST_TEST_MARK");
  std::FILE* mark = path == nullptr ? nullptr : std::fopen(path, "w");
  if (mark != nullptr) std::fclose(mark);
}

}  // namespace
