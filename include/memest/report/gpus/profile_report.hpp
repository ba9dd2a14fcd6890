// A profile's laws, and how they do against samples.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memest/report/report.hpp"
#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/gpu/sample.hpp"

namespace memest {

/// A sample and what the profile says of it; nothing where it has no law for such calls.
struct PredictedSample {
  Sample sample;
  std::optional<Seconds> predicted;
};

/// `samples` is empty where the profile is only shown.
Report report_profile(const GpuProfile& profile, const GpuSpec& gpu,
                      const std::vector<PredictedSample>& samples, const Question& question);

}  // namespace memest
