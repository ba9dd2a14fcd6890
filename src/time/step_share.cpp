#include "time/step_share.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "time/laws/cool_share.hpp"

namespace memest {
namespace {

/// Shares by compute capability, over recorded steps. The rest is gaps, contention with collectives
/// and clocks under load.
struct ShareRow {
  ComputeCapability capability;
  double slow;
  double expected;
  double fast;
  bool of_one = false;  ///< recorded on one GPU
};

constexpr ShareRow operator/(const ShareRow& row, double factor) {
  return {row.capability, row.slow / factor, row.expected / factor, row.fast / factor, row.of_one};
}

/// 10th, 50th and 90th percentile over steps of eager FSDP.
constexpr std::array kShares = {ShareRow{kAmpere, 0.75, 0.87, 0.97},
                                ShareRow{kHopper, 0.67, 0.79, 0.89}};
/// Shares of steps on one GPU, whose kernels no collective slows and no other rank waits for.
constexpr std::array kSharesOfOne = {ShareRow{kHopper, 0.79, 0.92, 0.98, true}};
/// Both kinds pooled.
constexpr ShareRow kElsewhere = {{}, 0.70, 0.83, 0.96};

/// Fused kernels, as Megatron-core's, leave few gaps: they explain whole steps, slow what eager
/// ones reach. Laws of calls inside a loop are off by 3 to 5 % for operators that they were not
/// fitted to.
constexpr ShareRow kWholeSteps = {{}, 0.86, 1, 1.05};

/// Fused kernels do so on Blackwell too, but for the slow end: the 10th percentile of kernels over
/// 15 steps that SimuMax recorded on B200.
constexpr ShareRow kWholeBlackwellSteps = {{}, 0.77, 1, 1.05};

/// Steps over several GPUs were recorded on H100, whose law has products lose as much in every step
/// as in one of nothing else: 1.16 times their bursts. Where they are a half to two thirds of the
/// kernels, and lose what cool_share_of() leaves them, sums are shorter by so much, and the steps
/// are not.
constexpr double kSteadyOverCool = 1.09;

/// Whether the laws of this GPU's kernels are of calls inside a training loop.
bool timed_in_a_loop(const GpuSpec& gpu) {
  return gpu.profile != nullptr && gpu.profile->load == Load::sustained;
}

/// Datacenter Blackwell: B200, B300 and their superchips.
bool is_blackwell(const GpuSpec& gpu) {
  constexpr ComputeCapability kAfter{12, 0};
  return gpu.compute_capability() >= kBlackwell && gpu.compute_capability() < kAfter;
}

/// The shares of steps of fused kernels; null where none were recorded or published.
const ShareRow* whole_steps_of(const GpuSpec& gpu) {
  if (timed_in_a_loop(gpu) || gpu.compute_capability() == kHopper) return &kWholeSteps;
  return is_blackwell(gpu) ? &kWholeBlackwellSteps : nullptr;
}

const ShareRow& share_of(const StepPlatform& platform) {
  const auto& [gpu, framework, alone] = platform;
  // Only where steps say so: else a share from other GPUs stands, whatever the kernels.
  const ShareRow* whole = row_of(framework).fills_steps ? whole_steps_of(gpu) : nullptr;
  if (whole != nullptr) return *whole;
  const std::optional<ComputeCapability> capability = gpu.compute_capability();
  const auto of_gpu = [&capability](const ShareRow& other) {
    return capability == other.capability;
  };
  const auto* const on_one = std::ranges::find_if(kSharesOfOne, of_gpu);
  if (alone && on_one != kSharesOfOne.end()) return *on_one;
  const auto* const row = std::ranges::find_if(kShares, of_gpu);
  return row == kShares.end() ? kElsewhere : *row;
}

}  // namespace

StepPlatform platform_of(const Job& job) {
  return {job.hardware.gpu, job.training->implementation.framework, job.parallelism.ranks() == 1};
}

double step_share(const StepPlatform& platform, Outlook outlook) {
  ShareRow row = share_of(platform);
  if (!row.of_one && cool_share_of(platform.gpu)) row = row / kSteadyOverCool;
  switch (outlook) {
    case Outlook::fast:
      return row.fast;
    case Outlook::expected:
      return row.expected;
    case Outlook::slow:
      return row.slow;
  }
  unreachable("every outlook has a share");
}

bool explains_whole_steps(const StepPlatform& platform) {
  return row_of(platform.framework).fills_steps && whole_steps_of(platform.gpu) != nullptr;
}

bool has_recorded_steps(const StepPlatform& platform) { return &share_of(platform) != &kElsewhere; }

}  // namespace memest
