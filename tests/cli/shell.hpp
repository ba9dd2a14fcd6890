// Runs the built program as a shell would.
#pragma once

#include <string>
#include <vector>

namespace memest {

struct Ran {
  int code = 0;  ///< exit code; 128 + signal where a signal ended it
  std::string out;
  std::string err;
};

/// Runs `command` with /bin/sh in the repository's root, `memest` being the built program. The
/// locale is C.UTF-8 and NO_COLOR is unset unless the command sets them itself.
Ran run_shell(const std::string& command);

/// The names of the commands, as the overview lists them.
std::vector<std::string> command_names();

/// The whole file; fails the test where it cannot be read.
std::string file_text(const std::string& path);

}  // namespace memest
