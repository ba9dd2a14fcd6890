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

/// Whether the laws of this GPU's kernels are of calls inside a training loop.
bool timed_in_a_loop(const GpuSpec& gpu) {
  return gpu.profile != nullptr && gpu.profile->load == Load::sustained;
}

/// Whether steps of fused kernels were recorded there.
bool has_whole_steps(const GpuSpec& gpu) {
  return timed_in_a_loop(gpu) || gpu.compute_capability() == kHopper;
}

const ShareRow& share_of(const GpuSpec& gpu, Framework framework) {
  // Only where recorded steps say so: else a share from other GPUs stands, whatever the kernels.
  if (row_of(framework).fills_steps && has_whole_steps(gpu)) return kWholeSteps;
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
  return &share_of(gpu, framework) == &kWholeSteps;
}

bool is_held_to_recorded_steps(const GpuSpec& gpu, Framework framework) {
  return row_of(framework).fills_steps && gpu.compute_capability() == kBlackwell;
}

bool has_recorded_steps(const GpuSpec& gpu, Framework framework) {
  return &share_of(gpu, framework) != &kElsewhere;
}

}  // namespace memest
