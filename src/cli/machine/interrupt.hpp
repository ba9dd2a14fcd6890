// Ctrl-C: the program ends at once with exit code 130, but not while a file is being written, and
// what can go on later finishes its step first.
#pragma once

#include <sys/types.h>

#include <array>
#include <csignal>
#include <cstdint>

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

/// The effect of a second signal on an InterruptWatch.
enum class SecondSignal : std::uint8_t {
  ends,       ///< the program, at once
  remembered  ///< as the first was: what is under way ends by itself, and cleans up
};

/// From its construction on the first SIGINT or SIGTERM is remembered; a second one ends the
/// program, if not said otherwise. One at a time.
class InterruptWatch {
 public:
  explicit InterruptWatch(SecondSignal second = SecondSignal::ends);
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  [[nodiscard]] static bool interrupted();
  /// From here on SIGTERM, which a terminal does not give to a program that this one waits for, is
  /// passed on to `process`; 0: to none.
  static void pass_terminations_to(pid_t process);

 private:
  std::array<struct sigaction, 2> before_{};
};

}  // namespace memest
