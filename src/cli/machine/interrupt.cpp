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

volatile std::sig_atomic_t g_terminated = 0;
volatile std::sig_atomic_t g_waited_for = 0;  // a process, which has the numbers of an int

void remember(int signal) {
  g_interrupted = 1;
  if (signal != SIGTERM) return;
  g_terminated = 1;
  if (g_waited_for != 0) kill(g_waited_for, signal);
}

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

InterruptWatch::InterruptWatch(SecondSignal second) {
  g_interrupted = 0;
  g_terminated = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  // System calls go on: a sleep is not cut short. A second signal that ends finds the default
  // again.
  action.sa_flags = SA_RESTART;
  if (second == SecondSignal::ends) action.sa_flags |= static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

void InterruptWatch::pass_terminations_to(pid_t process) {
  g_waited_for = process;
  // One may come before the process that it is meant for is known here.
  if (process != 0 && g_terminated != 0) kill(process, SIGTERM);
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool InterruptWatch::interrupted() { return g_interrupted != 0; }

}  // namespace memest
