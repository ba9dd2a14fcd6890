// Steps that would be measured of a device, in their order, and how long they would take.
#pragma once

#include "memest/calibrate/sweep.hpp"
#include "memest/report/report.hpp"

namespace memest {

/// `device` as its driver names it.
Page report_sweep(const Sweep& sweep, const std::string& device);

}  // namespace memest
