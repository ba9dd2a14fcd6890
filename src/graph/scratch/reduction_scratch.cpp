// ATen/native/cuda/Reduce.cuh of PyTorch 2.11: gpu_reduce_kernel and setReduceConfig.
#include <algorithm>
#include <bit>
#include <limits>

#include "graph/scratch/scratch_sequence.hpp"
#include "memest/graph/kernel_scratch.hpp"

namespace memest {
namespace {

// mnt_wrapper::MAX_NUM_THREADS, vt0, min_values_per_thread and max_values_per_thread of Reduce.cuh
// on CUDA (ROCm has others); a semaphore is an int.
constexpr std::int64_t kMostThreads = 512;
constexpr std::int64_t kLanes = 32;
constexpr std::int64_t kVector = 4;          ///< elements that a thread loads at once
constexpr std::int64_t kFewestValues = 16;   ///< per thread
constexpr std::int64_t kMostValues = 256;    ///< per thread
constexpr std::int64_t kSemaphoreBytes = 4;  ///< per block of outputs
// TensorIteratorBase::can_use_32bit_indexing compares with the largest int32.
constexpr std::int64_t kMostOffset = std::numeric_limits<std::int32_t>::max();

/// A dimension as TensorIterator sees it; strides count elements.
struct IteratedDimension {
  std::int64_t size;
  bool reduced;
  std::int64_t stride;
  std::int64_t output_stride;  ///< 0 where reduced
};
/// The reduced dimensions, then the kept ones, fastest first.
using IteratedDimensions = std::vector<IteratedDimension>;

/// Dimensions of size 1 drop out, neighbours of one kind merge.
IteratedDimensions coalesced(const std::vector<ReductionAxis>& axes) {
  IteratedDimensions merged;
  std::int64_t stride = 1;
  std::int64_t output_stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->size == 1) continue;
    if (!merged.empty() && merged.back().reduced == axis->reduced) {
      merged.back().size = product(merged.back().size, axis->size);
    } else {
      merged.push_back({axis->size, axis->reduced, stride, axis->reduced ? 0 : output_stride});
    }
    stride = product(stride, axis->size);
    if (!axis->reduced) output_stride = product(output_stride, axis->size);
  }
  // TensorIteratorBase::reorder_dimensions puts dimensions of output stride 0, the reduced ones,
  // first.
  std::ranges::stable_partition(merged, &IteratedDimension::reduced);
  return merged;
}

std::int64_t extent(const IteratedDimension& dimension, std::int64_t bytes) {
  return product(dimension.size - 1, std::max(dimension.stride, dimension.output_stride), bytes);
}

/// Kernels count bytes and elements in 32 bits.
bool fits_32_bits(const IteratedDimensions& dimensions, std::int64_t bytes) {
  std::int64_t offset = 1;
  std::int64_t elements = 1;
  for (const IteratedDimension& dimension : dimensions) {
    offset = checked_add(offset, product(dimension.size - 1, dimension.stride, bytes));
    elements = product(elements, dimension.size);
  }
  return offset <= kMostOffset && elements <= kMostOffset;
}

std::int64_t power_of_two_up_to(std::int64_t count, std::int64_t most) {
  if (count >= most) return most;
  return count < 1 ? 1
                   : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count)));
}

/// How one kernel is launched.
struct Launch {
  bool along_input = false;  ///< threads of a row add up one output
  std::int64_t inputs = 1;   ///< per output
  std::int64_t outputs = 1;
  std::int64_t output_vector = 1;
  std::int64_t block_width = 1;
  std::int64_t block_height = 1;
};

/// How many outputs a thread computes: 4, 2 or 1, as the input's first element and strides allow.
std::int64_t output_vector(const IteratedDimensions& dimensions, const IteratedDimension& fastest,
                           std::int64_t offset) {
  std::int64_t vector = kVector;
  const auto divide = [&](std::int64_t number) {
    while (number % vector != 0) vector /= 2;
  };
  divide(offset);
  divide(fastest.size);
  for (const IteratedDimension& dimension : dimensions) {
    if (&dimension != &fastest) divide(dimension.stride);
  }
  return vector;
}

Launch launch_of(const IteratedDimensions& dimensions, std::int64_t offset) {
  Launch launch;
  for (const IteratedDimension& dimension : dimensions) {
    (dimension.reduced ? launch.inputs : launch.outputs) *= dimension.size;
  }
  const auto kept = std::ranges::find(dimensions, false, &IteratedDimension::reduced);
  const auto reduced_dimensions = kept - dimensions.begin();
  // setReduceConfig: reduction_on_fastest_striding_dimension. A bias gradient, [tokens, width]
  // summed over tokens, is not: neighbouring threads write neighbouring outputs.
  launch.along_input = kept == dimensions.end() ||
                       (reduced_dimensions > 0 && dimensions.front().stride < kept->stride);
  std::int64_t across = launch.along_input ? launch.inputs : launch.outputs;
  const std::int64_t along = launch.along_input ? launch.outputs : launch.inputs;
  if (launch.along_input) {
    // "Vectorize along input" asks for one reduced dimension of 128 elements at least.
    constexpr std::int64_t kVectorizedInputs = 128;
    if (across >= kVectorizedInputs && reduced_dimensions == 1) across /= kVector;
  } else if (kept->stride == 1) {
    launch.output_vector = output_vector(dimensions, *kept, offset);
    across /= launch.output_vector;
  }
  // ReduceConfig::set_block_dimension: the width is first held to a warp, then grows again by what
  // the height leaves unused.
  const std::int64_t most = kMostThreads / launch.output_vector;
  const std::int64_t width = power_of_two_up_to(across, most);
  const std::int64_t height = power_of_two_up_to(along, most);
  launch.block_height = std::min(height, most / std::min(width, kLanes));
  launch.block_width = std::min(width, most / launch.block_height);
  return launch;
}

/// The partial results and semaphores of blocks that share an output, where any do.
void add_shared(ScratchSequence& sequence, const Launch& launch, std::int64_t accumulate_bytes,
                const LaunchDevice& device) {
  std::int64_t input_step = launch.along_input ? launch.block_width : 1;
  std::int64_t output_step = launch.along_input ? 1 : launch.block_width;
  // split_across_warps: each thread must be left with 16 values to add.
  const bool splits = blocks_of(launch.inputs, input_step) >=
                      std::min(launch.block_height * kFewestValues, kMostValues);
  (splits ? input_step : output_step) *= launch.block_height;
  const std::int64_t values = blocks_of(launch.inputs, input_step);
  const std::int64_t threads = launch.block_width * launch.block_height;
  const std::int64_t target =
      device.multiprocessors * (device.threads_per_multiprocessor / threads);
  const std::int64_t grid = blocks_of(launch.outputs / launch.output_vector, output_step);
  // should_global_reduce. Only then does gpu_reduce_kernel ask the allocator for its buffer and its
  // semaphores; smaller sums stay in shared memory.
  if (!splits || values < kMostValues || grid > target) return;
  const std::int64_t sharing =
      std::max(std::min(blocks_of(target, grid), blocks_of(values, kFewestValues)),
               blocks_of(values, kMostValues));
  if (sharing == 1) return;
  // global_memory_size() multiplies by all outputs and by the block's lanes as well: bf16 [16384,
  // 2304] on 132 multiprocessors has 118 blocks per output and asks for 4·2304·118·128 B = 139 MB.
  const std::int64_t lanes = launch.along_input ? 1 : launch.block_width * launch.output_vector;
  const std::int64_t partials =
      sequence.allocate(product(launch.outputs, sharing, lanes, accumulate_bytes));
  sequence.release(sequence.allocate(product(grid, kSemaphoreBytes)));
  sequence.release(partials);
}

/// One kernel, or one for each half of the longest dimension.
class Kernels {
 public:
  Kernels(const Reduction& reduction, const LaunchDevice& device, ScratchSequence& sequence)
      : reduction_(reduction), device_(device), sequence_(sequence) {}

  void add(const IteratedDimensions& dimensions, std::int64_t offset) {
    const std::int64_t bytes = reduction_.element_bytes;
    if (fits_32_bits(dimensions, bytes)) {
      add_shared(sequence_, launch_of(dimensions, offset), reduction_.accumulate_bytes, device_);
      return;
    }
    std::size_t longest = dimensions.size() - 1;
    for (std::size_t i = longest; i-- > 0;) {
      if (extent(dimensions[i], bytes) > extent(dimensions[longest], bytes)) longest = i;
    }
    IteratedDimensions first = dimensions;
    IteratedDimensions second = dimensions;
    // SplitUntil32Bit halves get_dim_to_split() until 32 bits can index every part.
    first[longest].size /= 2;
    second[longest].size -= first[longest].size;
    add(first, offset);
    add(second, checked_add(offset, product(first[longest].size, dimensions[longest].stride)));
  }

 private:
  const Reduction& reduction_;
  const LaunchDevice& device_;
  ScratchSequence& sequence_;
};

}  // namespace

Reduction sum_of_rows(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes) {
  return {{{rows, true}, {columns, false}}, element_bytes};
}

Reduction sum_of_columns(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes) {
  return {{{rows, false}, {columns, true}}, element_bytes};
}

Reduction sum_of_middle(std::int64_t outer, std::int64_t middle, std::int64_t inner,
                        std::int64_t element_bytes) {
  return {{{outer, false}, {middle, true}, {inner, false}}, element_bytes};
}

Reduction sum_of_channels(std::int64_t images, std::int64_t channels, std::int64_t pixels,
                          std::int64_t element_bytes) {
  return {{{images, true}, {channels, false}, {pixels, true}}, element_bytes};
}

Reduction sum_of_all(std::int64_t elements, std::int64_t element_bytes) {
  return {{{elements, true}}, element_bytes};
}

ScratchSteps reduction_scratch(const Reduction& reduction, const LaunchDevice& device) {
  const IteratedDimensions dimensions = coalesced(reduction.axes);
  ScratchSequence sequence;
  // A 16-bit result cannot carry sums from one kernel to the next: a buffer of its own does.
  constexpr std::int64_t kHalfBytes = 2;
  // gpu_reduce_kernel: can_accumulate_in_output is false for half and bfloat16; the
  // AccumulationBuffer is made where 32 bits cannot index the input, from 2 GiB on.
  const bool carries = reduction.element_bytes == kHalfBytes &&
                       reduction.accumulate_bytes > kHalfBytes &&
                       !fits_32_bits(dimensions, reduction.element_bytes);
  std::int64_t carried = 0;
  if (carries) {
    std::int64_t outputs = 1;
    for (const IteratedDimension& dimension : dimensions) {
      outputs = std::max(outputs, product(dimension.size, dimension.output_stride));
    }
    carried = sequence.allocate(product(outputs, reduction.accumulate_bytes));
  }
  Kernels(reduction, device, sequence).add(dimensions, 0);
  if (carries) sequence.release(carried);
  return sequence.take();
}

}  // namespace memest
