#include "cli/machine/interrupt.hpp"

#include <unistd.h>

#include <array>
#include <cstddef>

#include "cli/exit_code.hpp"

namespace memest {
namespace {

// A signal comes between any two instructions: its handler can write such a variable and little
// else (C++, [support.signal]).
volatile std::sig_atomic_t g_interrupted = 0;

void remember(int) { g_interrupted = 1; }

/// _exit is one of the few functions that a handler may call (POSIX, 2.4.3).
void end(int) { _exit(static_cast<int>(ExitCode::interrupted)); }

constexpr std::array kSignals = {SIGINT, SIGTERM};

}  // namespace

void end_when_interrupted() {
  for (const int signal : kSignals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action.sa_handler = end;
    sigaction(signal, &action, nullptr);
  }
}

UninterruptedWrite::UninterruptedWrite() {
  sigset_t waiting;
  sigemptyset(&waiting);
  for (const int signal : kSignals) sigaddset(&waiting, signal);
  pthread_sigmask(SIG_BLOCK, &waiting, &before_);
}

UninterruptedWrite::~UninterruptedWrite() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

InterruptWatch::InterruptWatch() {
  g_interrupted = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  // The second one finds the default again. System calls go on: a sleep is not cut short.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool InterruptWatch::interrupted() { return g_interrupted != 0; }

}  // namespace memest
