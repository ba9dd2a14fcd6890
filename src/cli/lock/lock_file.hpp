// The lock that `memest check` holds its files to: which one, what it has of them, how it is
// written anew.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/report/check_report.hpp"
#include "memest/spec/lock.hpp"

namespace memest {

struct LockFile {
  std::string path;       ///< empty: none
  bool is_there = false;  ///< false: --update writes the first one
  Lock lock;
};

/// The lock file that the arguments name or the working directory has.
std::string lock_path_of(const Arguments& arguments);

/// Reads it. Flags that change what a spec says have no lock: a note where there would be one, a
/// mistake where one is asked for. Throws EnvironmentError where a named one cannot be opened.
Checked<LockFile> open_lock(const Arguments& arguments);

/// Whether a spec of that name has a place in a lock: a file, no preset and no standard input.
bool is_lockable(const std::string& file);

/// Sets what the lock has of each file, and which of its specs are gone.
void hold_to_lock(const LockFile& file, std::string_view version, CheckedSpecs& specs);

/// The lock file with what `specs` need now, which accepts it; none, and nothing is accepted, where
/// one of them is no spec.
std::vector<FileBesideAnswer> updated_lock(const LockFile& file, CheckedSpecs& specs);

}  // namespace memest
