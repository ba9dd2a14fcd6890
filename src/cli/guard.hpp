// The ends of a command, good or bad: files are written, and what no input should cause is caught
// here alone.
#pragma once

#include <functional>
#include <string>

#include "cli/command.hpp"

namespace memest {

/// The outcome of `answer`; where it throws, the error as a diagnostic with its exit code.
Outcome guarded(const std::function<Outcome()>& answer);

/// Writes the files that an answer has beside its text, and its text where --output names a file:
/// then it is true. An error replaces no file that an earlier run
/// wrote; an answer may say that something is wrong.
bool write_files(const Outcome& outcome, const Arguments& arguments);

}  // namespace memest
