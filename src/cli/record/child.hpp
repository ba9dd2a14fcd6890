// A program that memest runs and waits for.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace memest {

/// Runs the command, found as a shell finds it, with these variables beside this process's own, and
/// waits for its end. Its standard output goes to standard error: standard output is the answer's.
/// Returns its exit code, or 128 and the number of the signal that ended it. Throws
/// EnvironmentError where it cannot be run. Under an InterruptWatch Ctrl-C and SIGTERM end the
/// program, not the answer.
int run_child(std::vector<std::string> command,
              const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace memest
