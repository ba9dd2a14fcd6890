// Whether this machine's kernels and its ruler can be believed, and how its rates stand beside
// published ones.
#pragma once

#include <string>
#include <vector>

#include "memest/kernels/selftest.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/gpu/ceiling.hpp"

namespace memest {

struct SelftestAnswer {
  Selftest selftest;
  std::string device;             ///< as its driver names it
  std::string gpu;                ///< slug; "host"
  std::vector<Ceiling> ceilings;  ///< of that GPU
};

Report report_selftest(const SelftestAnswer& answer, const Question& question);

}  // namespace memest
