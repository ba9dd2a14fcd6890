#include "cli/lock/lock_file.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "memest/plan/lock.hpp"
#include "memest/reader/lock.hpp"

namespace memest {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

/// The folder that the paths of the lock's specs are relative to.
fs::path folder_of(const std::string& lock) {
  return fs::absolute(lock).lexically_normal().parent_path();
}

/// A file as the lock calls it.
std::string name_in_lock(const fs::path& folder, const std::string& file) {
  return fs::absolute(file).lexically_normal().lexically_relative(folder).generic_string();
}

/// A flag that changes what a spec says; empty where there is none.
std::string changing_flag(const Arguments& arguments) {
  if (!arguments.gpus.empty()) return "--gpu";
  if (!arguments.counts.empty()) return "--gpus";
  if (!arguments.overrides.empty()) return "--set";
  if (!arguments.freed.empty()) return "--free";
  return arguments.text_only ? "--text-only" : "";
}

void hold(const Lock& lock, const std::string& name, CheckedFile& file) {
  const auto locked = lock.specs.find(name);
  if (locked == lock.specs.end()) {
    file.lock = LockState::added;
    return;
  }
  file.moves = moves_between(locked->second, file.now, lock.tolerance);
  file.lock = file.moves.any() ? LockState::moved : LockState::held;
}

bool is_no_spec(const CheckedFile& file) { return file.status() == FileStatus::invalid; }

}  // namespace

std::string lock_path_of(const Arguments& arguments) {
  if (!arguments.lock.empty()) return arguments.lock;
  return arguments.update || exists(kLockFile) ? kLockFile : "";
}

Checked<LockFile> open_lock(const Arguments& arguments) {
  LockFile file{lock_path_of(arguments), false, {}};
  const std::string flag = changing_flag(arguments);
  if (file.path.empty()) return file;
  if (!flag.empty() && (arguments.update || !arguments.lock.empty())) {
    return Diagnostic{Severity::error,
                      {},
                      "a lock holds specs as they are written, and " + flag + " changes them",
                      "leave " + flag + " out, or the lock"};
  }
  if (!flag.empty()) {
    return {
        LockFile{},
        {{Severity::note, {}, file.path + " is passed over: " + flag + " changes the specs", ""}}};
  }
  file.is_there = exists(file.path);
  if (!file.is_there && arguments.update) return file;
  Checked<Lock> lock = read_lock(file.path);
  if (!lock.ok()) return lock.diagnostics();
  file.lock = std::move(lock).value();
  return file;
}

bool is_lockable(const std::string& file) { return file != "-" && exists(file); }

void hold_to_lock(const LockFile& file, std::string_view version, CheckedSpecs& specs) {
  if (file.path.empty()) return;
  specs.lock = file.path;
  const fs::path folder = folder_of(file.path);
  std::set<std::string> known;
  for (CheckedFile& checked : specs.files) {
    if (!is_lockable(checked.file)) continue;
    const std::string name = name_in_lock(folder, checked.file);
    known.insert(name);
    if (is_no_spec(checked)) continue;
    checked.now.rests_on.insert(checked.now.rests_on.begin(), {"memest", std::string(version)});
    hold(file.lock, name, checked);
  }
  std::set<std::string> passed_over;
  for (const std::string& path : specs.passed_over) passed_over.insert(name_in_lock(folder, path));
  for (const auto& [name, locked] : file.lock.specs) {
    if (known.contains(name)) continue;
    // A spec that is there and was not asked about is neither held nor gone.
    if (passed_over.contains(name) || !exists((folder / name).string())) specs.gone.push_back(name);
  }
}

std::vector<FileBesideAnswer> updated_lock(const LockFile& file, CheckedSpecs& specs) {
  if (std::ranges::any_of(specs.files, is_no_spec)) return {};
  Lock lock = file.lock;
  const fs::path folder = folder_of(file.path);
  for (const std::string& name : specs.gone) lock.specs.erase(name);
  for (CheckedFile& checked : specs.files) {
    if (!is_lockable(checked.file)) continue;
    checked.accepted = true;
    lock.specs.insert_or_assign(name_in_lock(folder, checked.file), checked.now);
  }
  specs.updated = true;
  return {{file.path, write_lock(lock)}};
}

}  // namespace memest
