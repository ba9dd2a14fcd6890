// The environment failed: a file that cannot be opened or written, a device that does not answer.
// Exit code 3.
#pragma once

#include <stdexcept>

namespace memest {

/// One sentence with the path and the system's reason: "cannot open 'model.yaml': No such file or
/// directory".
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace memest
