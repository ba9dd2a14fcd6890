#include "time/step_share.hpp"

#include <algorithm>
#include <array>

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"

namespace memest {
namespace {

/// Shares by compute capability, over recorded steps. The rest is gaps, contention with collectives
/// and clocks under load.
struct ShareRow {
  ComputeCapability capability;
  double slow;
  double expected;
  double fast;
};

/// 10th, 50th and 90th percentile over steps of eager FSDP.
constexpr std::array kShares = {ShareRow{kAmpere, 0.75, 0.86, 0.97},
                                ShareRow{kHopper, 0.61, 0.73, 0.85}};
/// Both kinds pooled.
constexpr ShareRow kElsewhere = {{}, 0.66, 0.80, 0.93};

/// Fused kernels, as Megatron-core's, leave few gaps: they explain whole steps, slow what eager
/// ones reach. Laws of calls inside a loop are off by 3 to 5 % for operators that they were not
/// fitted to.
constexpr ShareRow kWholeSteps = {{}, 0.86, 1, 1.05};

/// Fused kernels do so on Blackwell too, but for the slow end: the 10th percentile of kernels over
/// 15 steps that SimuMax recorded on B200.
constexpr ShareRow kWholeBlackwellSteps = {{}, 0.77, 1, 1.05};

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

const ShareRow& share_of(const GpuSpec& gpu, Framework framework) {
  // Only where steps say so: else a share from other GPUs stands, whatever the kernels.
  const ShareRow* whole = row_of(framework).fills_steps ? whole_steps_of(gpu) : nullptr;
  if (whole != nullptr) return *whole;
  const auto* const row = std::find_if(
      kShares.begin(), kShares.end(),
      [&gpu](const ShareRow& other) { return gpu.compute_capability() == other.capability; });
  return row == kShares.end() ? kElsewhere : *row;
}

}  // namespace

double step_share(const GpuSpec& gpu, Framework framework, Outlook outlook) {
  const ShareRow& row = share_of(gpu, framework);
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

bool explains_whole_steps(const GpuSpec& gpu, Framework framework) {
  return row_of(framework).fills_steps && whole_steps_of(gpu) != nullptr;
}

bool has_recorded_steps(const GpuSpec& gpu, Framework framework) {
  return &share_of(gpu, framework) != &kElsewhere;
}

}  // namespace memest
