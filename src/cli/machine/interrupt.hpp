// Ctrl-C: the program ends at once with exit code 130, but not while a file is being written, and
// what can go on later finishes its step first.
#pragma once

#include <array>
#include <csignal>

namespace memest {

/// From here on SIGINT and SIGTERM end the program with exit code 130. Whoever started it with one
/// of them ignored (nohup, a job in the background of a script) meant that.
void end_when_interrupted();

/// Signals wait as long as it lives, in this thread: no file stays half-written. A second one waits
/// as the first does.
class UninterruptedWrite {
 public:
  UninterruptedWrite();
  UninterruptedWrite(const UninterruptedWrite&) = delete;
  UninterruptedWrite& operator=(const UninterruptedWrite&) = delete;
  ~UninterruptedWrite();

 private:
  sigset_t before_{};
};

/// From its construction on the first SIGINT or SIGTERM is remembered; a second one ends the
/// program. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  [[nodiscard]] static bool interrupted();

 private:
  std::array<struct sigaction, 2> before_{};
};

}  // namespace memest
