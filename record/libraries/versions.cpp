// The versions that CUDA's libraries name. Both majors are answered by one library, so that the
// major is that of the runtime which the program's libraries were linked with.

#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "abi/calls.hpp"

namespace memest::record {
namespace {

constexpr int kCuda12 = 12080;
constexpr int kCuda13 = 13000;

/// Whether a loaded library needs the runtime of CUDA 12: PyTorch's libc10_cuda does, of one major.
int needs_cuda12(dl_phdr_info* library, std::size_t, void* found) {
  const char* name = std::strrchr(library->dlpi_name, '/');
  if (name == nullptr || std::strncmp(name, "/libc10_cuda.so", 15) != 0) return 0;
  const ElfW(Dyn)* table = nullptr;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    if (library->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    table = reinterpret_cast<const ElfW(Dyn)*>(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
  }
  if (table == nullptr) return 0;
  const char* strings = nullptr;
  for (const auto* entry = table; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  }
  for (const auto* entry = table; entry->d_tag != DT_NULL && strings != nullptr; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    const char* needed = strings + entry->d_un.d_val;
    if (std::strcmp(needed, "libcudart.so.12") == 0) *static_cast<bool*>(found) = true;
  }
  return 1;
}

int cuda_version() {
  static const int version = [] {
    bool is_cuda12 = false;
    dl_iterate_phdr(needs_cuda12, &is_cuda12);
    return is_cuda12 ? kCuda12 : kCuda13;
  }();
  return version;
}

Status tell(int* version, int value) {
  *version = value;
  return kSuccess;
}

}  // namespace
}  // namespace memest::record

using namespace memest::record;

MEMEST_CALL Status cudaRuntimeGetVersion(int* version) { return tell(version, cuda_version()); }
MEMEST_CALL Status cudaDriverGetVersion(int* version) { return tell(version, cuda_version()); }
MEMEST_CALL Status cuDriverGetVersion(int* version) { return tell(version, cuda_version()); }
MEMEST_CALL Status nvrtcVersion(int* major, int* minor) {
  *minor = 0;
  return tell(major, cuda_version() / 1000);
}
MEMEST_CALL std::size_t cudnnGetCudartVersion() { return static_cast<std::size_t>(cuda_version()); }
