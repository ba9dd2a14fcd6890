// A shared library that is opened while the program runs, because it may be missing.
#pragma once

#include <dlfcn.h>

namespace memest::kernels {

class Library {
 public:
  /// Where the loader finds it; else closed.
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  Library(const Library&) = delete;
  Library(Library&&) = delete;
  Library& operator=(const Library&) = delete;
  Library& operator=(Library&&) = delete;
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  [[nodiscard]] void* handle() const { return handle_; }
  /// Null where the library is closed or has no such function.
  template <class Function>
  [[nodiscard]] Function* function(const char* name) const {
    if (handle_ == nullptr) return nullptr;
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace memest::kernels
