#include "cli/interrupt.hpp"

#include <array>
#include <csignal>

namespace memest {
namespace {

// A signal comes between any two instructions: its handler can write such a variable and little
// else (C++, [support.signal]).
volatile std::sig_atomic_t g_interrupted = 0;

void remember(int) { g_interrupted = 1; }

constexpr std::array kSignals = {SIGINT, SIGTERM};

}  // namespace

InterruptWatch::InterruptWatch() {
  g_interrupted = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  // The second one finds the default again. System calls go on: a sleep is not cut short.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

InterruptWatch::~InterruptWatch() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

bool InterruptWatch::interrupted() { return g_interrupted != 0; }

}  // namespace memest
