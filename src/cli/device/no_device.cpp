// The commands that measure, in a build without MEMEST_MEASURE: it has no kernels and fits nothing.
#include "cli/command.hpp"
#include "memest/diag/environment.hpp"

namespace memest {
namespace {

constexpr const char* kNoKernels =
    "this build of memest measures nothing (MEMEST_MEASURE is off): ./dev run calibrate and "
    "./dev run selftest build one that does";

}  // namespace

Outcome run_calibrate(const Arguments& /*arguments*/, const Surroundings& /*surroundings*/) {
  throw EnvironmentError(kNoKernels);
}

Outcome run_selftest(const Arguments& /*arguments*/, const Surroundings& /*surroundings*/) {
  throw EnvironmentError(kNoKernels);
}

}  // namespace memest
