#pragma once

namespace memest {

/// The exit codes that the shell learns.
enum class ExitCode {
  yes = 0,
  no = 1,            ///< a true "no": does not fit, over budget
  bad_input = 2,     ///< a spec, a flag or a number that is out of range
  environment = 3,   ///< a file that cannot be read or written
  not_known = 4,     ///< no answer for this model, framework or release; the first line says so
  internal = 70,     ///< a bug in memest (EX_SOFTWARE of sysexits.h)
  interrupted = 130  ///< by Ctrl-C, as shells say it; the work can be gone on with
};

}  // namespace memest
