#include "memest/graph/kernel_scratch.hpp"

#include <algorithm>
#include <array>

#include "graph/scratch/scratch_sequence.hpp"

namespace memest {
namespace {

struct Architecture {
  ComputeCapability capability;
  LaunchDevice device;  ///< but for the number of multiprocessors
};

// Threads: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Tiles:
// observed with PyTorch 2.11 (CUDA 13.0) for every capability but 10.3 and 12.1, which run the
// kernels of 10.0 and 12.0; any other tile contradicts one of 175 recorded sizes per capability (of
// the unique tiles of 9.0, 10.0 and 12.0 a range of at most 17 does not, whose member CUB's tuning
// tables name). Workspaces of grouped products were recorded on 9.0 and 10.0.
constexpr std::array kArchitectures = {
    Architecture{{7, 5}, {0, 1024, 2816, 320, 640}},
    Architecture{{8, 0}, {0, 2048, 3840, 1792, 2304}},
    Architecture{{8, 6}, {0, 1536, 3840, 320, 640}},
    Architecture{{8, 9}, {0, 1536, 3840, 320, 640}},
    Architecture{{9, 0}, {0, 2048, 4608, 4480, 4224, 512, 512}},
    Architecture{{10, 0}, {0, 2048, 4608, 3840, 3520, 5376, 5888}},
    Architecture{{10, 3}, {0, 2048, 4608, 3840, 3520, 5376, 5888}},
    Architecture{{12, 0}, {0, 1536, 4608, 3840, 3520}},
    Architecture{{12, 1}, {0, 1536, 4608, 3840, 3520}}};

// layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel: a tall and narrow input is summed in two
// passes, of which the first leaves one row of partial sums per 32 rows, as far as the grid allows.
constexpr std::int64_t kTallRows = 65536;
constexpr std::int64_t kColumnsPerBlock = 32;
constexpr std::int64_t kRowsPerBlock = 32;
constexpr std::int64_t kMostBlocks = 32768;

std::int64_t partial_rows(const NormBackward& norm, const LaunchDevice& device) {
  const bool is_narrow = norm.width / kColumnsPerBlock < device.multiprocessors / 2;
  // 65536 rows or fewer are summed in one pass without memory: so are 8 sequences of 8192 tokens,
  // and nine of them are not, up to width 2111 on 132 multiprocessors.
  if (norm.rows <= kTallRows || !is_narrow) return 0;
  const std::int64_t across = blocks_of(norm.width, kColumnsPerBlock);
  return std::min(blocks_of(norm.rows, kRowsPerBlock),
                  std::max(std::int64_t{1}, kMostBlocks / across));
}

}  // namespace

std::optional<LaunchDevice> launch_device(ComputeCapability capability,
                                          std::int64_t multiprocessors) {
  const auto* const found =
      std::ranges::find(kArchitectures, capability, &Architecture::capability);
  if (found == kArchitectures.end()) return {};
  LaunchDevice device = found->device;
  device.multiprocessors = multiprocessors;
  return device;
}

std::optional<LaunchDevice> launch_device(const GpuSpec& gpu) {
  const std::optional<ComputeCapability> capability = gpu.compute_capability();
  if (!gpu.multiprocessors || !capability) return std::nullopt;
  return launch_device(*capability, gpu.multiprocessors->value);
}

ScratchSteps norm_backward_scratch(const NormBackward& norm, const LaunchDevice& device) {
  const std::int64_t partials = partial_rows(norm, device);
  if (partials == 0) return {};
  const ScratchSteps sum =
      reduction_scratch(sum_of_rows(partials, norm.width, norm.element_bytes), device);
  const int gradients = norm.has_bias ? 2 : 1;
  const std::int64_t row = product(norm.width, norm.element_bytes);
  ScratchSequence sequence;
  for (int gradient = 0; gradient < gradients; ++gradient) {
    sequence.allocate(product(partials, row));
  }
  for (int gradient = 0; gradient < gradients; ++gradient) {
    // *dgamma = dgamma_blocks.sum(0): the gradient that was made before goes instead of the sum.
    const std::int64_t summed = sequence.replace(row);
    sequence.append(sum);
    sequence.release(summed);
  }
  for (int gradient = gradients - 1; gradient >= 0; --gradient) sequence.release(gradient);
  return sequence.take();
}

}  // namespace memest
