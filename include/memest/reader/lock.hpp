// The lock file: YAML with a figure a line, so that it is reviewed and merged like code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/lock.hpp"

namespace memest {

/// The lock file where nobody names another.
inline constexpr const char* kLockFile = "memest.lock";

/// Version of the lock file's form; another one is refused.
inline constexpr std::int64_t kLockFormat = 1;

/// Every mistake of the file at its place. Throws EnvironmentError where it cannot be opened.
Checked<Lock> read_lock(const std::string& path);
Checked<Lock> read_lock(const std::shared_ptr<const SourceText>& source);

/// The lock as its file. Reading it gives it back.
std::string write_lock(const Lock& lock);

}  // namespace memest
