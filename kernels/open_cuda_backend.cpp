#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "kernels/gpu_module.hpp"
#include "memest/diag/environment.hpp"
#include "memest/kernels/backend.hpp"

namespace memest {
namespace {

/// Beside the executable, in the lib folder beside its folder, or else where the loader looks.
/// Where nobody says which executable runs (no /proc), only there: a relative path would be one of
/// the current folder, which is whose it may be.
std::filesystem::path module_path() {
  std::error_code unknown;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  if (unknown || !folder.is_absolute()) return kernels::kGpuModule;
  for (const auto& path :
       {folder / kernels::kGpuModule, folder.parent_path() / "lib" / kernels::kGpuModule}) {
    if (std::filesystem::exists(path, unknown)) return path;
  }
  return kernels::kGpuModule;
}

/// The error that dlopen or dlsym reports.
std::string reason() {
  const char* text = dlerror();
  return text == nullptr ? "no reason given" : text;
}

/// Stays open until the program ends: its backends have their code in it.
void* open_module() {
  // RTLD_LOCAL: the module's CUDA symbols do not meet those of other libraries.
  void* module = dlopen(module_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw EnvironmentError("cannot open the GPU module: " + reason());
  return module;
}

}  // namespace

std::unique_ptr<Backend> open_cuda_backend() {
  void* door = dlsym(open_module(), kernels::kGpuModuleDoor);
  if (door == nullptr) throw EnvironmentError("the GPU module is of another version: " + reason());
  return std::unique_ptr<Backend>(reinterpret_cast<kernels::GpuModuleDoor>(door)());
}

}  // namespace memest
