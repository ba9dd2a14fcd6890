// The device that is measured: a GPU or the host, as --device says, with the facts that its laws
// are shares of.
#pragma once

#include <memory>

#include "cli/arguments.hpp"
#include "memest/calibrate/sweep.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/kernels/backend.hpp"

namespace memest {

struct OpenDevice {
  std::unique_ptr<Backend> backend;
  SweepDevice device;
};

/// Refuses a GPU that memest has no facts of, and warns of one that is not whole. Throws
/// EnvironmentError where there is no GPU.
Checked<std::shared_ptr<OpenDevice>> open_device(const Arguments& arguments);

}  // namespace memest
