// Scratch that PyTorch 2.11's CUDA kernels allocate beside their results, in order.
//
// The sizes depend on how the kernel is launched, so on the GPU; they are exact integer functions
// of the shapes. Reductions and norms follow ATen's launch configurations (Reduce.cuh,
// layer_norm_kernel.cu), sorts and scans the temporary storage of CUB 3.0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/gpu_target.hpp"

namespace memest {

/// The properties of a GPU that launch configurations read.
struct LaunchDevice {
  std::int64_t multiprocessors = 0;
  std::int64_t threads_per_multiprocessor = 0;
  std::int64_t sort_tile = 0;    ///< pairs that one block of a radix sort takes
  std::int64_t unique_tile = 0;  ///< pairs that one block of a unique-by-key takes
  std::int64_t select_tile = 0;  ///< flags that one block of a selection takes
  /// Workspace of CUTLASS's grouped bf16 products for each multiprocessor, of small tiles and of
  /// large ones; 0: PyTorch has no such kernel for the GPU and runs them one by one.
  std::int64_t grouped_small = 0;
  std::int64_t grouped_large = 0;
};

/// Nothing where PyTorch 2.11 has no kernels for the capability.
std::optional<LaunchDevice> launch_device(ComputeCapability capability,
                                          std::int64_t multiprocessors);
/// Nothing, too, where the number of multiprocessors is not known.
std::optional<LaunchDevice> launch_device(const GpuSpec& gpu);

/// One request to the allocator, or the return of one.
struct ScratchStep {
  enum class Kind : std::uint8_t {
    allocate,
    release,
    result,  ///< an allocation that outlives the operation: what it returns
    /// A result in place of one that was made before, which goes with the block's release.
    replacement
  };
  Kind kind = Kind::allocate;
  std::int64_t block = 0;  ///< allocations count from 0 within a sequence
  std::int64_t bytes = 0;  ///< of a release: those of its allocation

  friend bool operator==(const ScratchStep&, const ScratchStep&) = default;
};
using ScratchSteps = std::vector<ScratchStep>;

/// One dimension of a contiguous tensor and whether the reduction sums it up.
struct ReductionAxis {
  std::int64_t size = 1;
  bool reduced = false;
};

/// A sum, mean, norm, maximum, all or any of a contiguous tensor whose result has the input's type.
struct Reduction {
  std::vector<ReductionAxis> axes;  ///< slowest first, as in the tensor's shape
  std::int64_t element_bytes = 4;   ///< bf16 2, fp32 4, int64 8, bool 1
  std::int64_t accumulate_bytes =
      4;  ///< sums of bf16, fp16 and fp32: 4; a maximum, all, any: as the element
};

/// [rows, columns] to [columns]: the gradient of a bias or of a gain (all leading dimensions are
/// rows).
Reduction sum_of_rows(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes);
/// [rows, columns] to [rows]: sums and means over the last dimension.
Reduction sum_of_columns(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes);
/// [outer, middle, inner] to [outer, inner]: the gradient of repeated keys and values, and with an
/// `outer` of 1 of what was broadcast over the batch.
Reduction sum_of_middle(std::int64_t outer, std::int64_t middle, std::int64_t inner,
                        std::int64_t element_bytes);
/// [images, channels, pixels] to [channels]: the gradient of a convolution's bias.
Reduction sum_of_channels(std::int64_t images, std::int64_t channels, std::int64_t pixels,
                          std::int64_t element_bytes);
/// Every element to one.
Reduction sum_of_all(std::int64_t elements, std::int64_t element_bytes);

/// Scratch allocated after the result; empty where one pass needs none.
ScratchSteps reduction_scratch(const Reduction& reduction, const LaunchDevice& device);

/// Scratch of a running sum over one row of `items` of `element_bytes`.
ScratchSteps scan_scratch(std::int64_t items, std::int64_t element_bytes);

/// Scratch of sorting one row of 64-bit integers with their numbers.
ScratchSteps sort_scratch(std::int64_t items, const LaunchDevice& device);

/// Rows added to `rows` others at `indices` indices that may repeat.
struct IndexSum {
  std::int64_t indices = 0;
  std::int64_t rows = 0;
  bool narrow = false;  ///< they have 32 bits, and are widened first
};
ScratchSteps index_sum_scratch(const IndexSum& sum, const LaunchDevice& device);
/// As above, of indices that the host has, where negative ones are wrapped.
ScratchSteps host_index_sum_scratch(std::int64_t indices, std::int64_t rows,
                                    const LaunchDevice& device);

/// Scratch of sorting `indices` of `rows` rows, with their order.
ScratchSteps index_order_scratch(std::int64_t indices, std::int64_t rows,
                                 const LaunchDevice& device);

/// Scratch of counting the flags that are set among `items`, and of finding their places (nonzero).
ScratchSteps count_flags_scratch(std::int64_t items, const LaunchDevice& device);
ScratchSteps select_flags_scratch(std::int64_t items, const LaunchDevice& device);

/// Scratch of the `slices` searches for the largest of `size` numbers of 32 bits (torch.topk).
ScratchSteps top_k_scratch(std::int64_t slices, std::int64_t size, const LaunchDevice& device);

/// Products of `groups` matrices with their own rows in one call, [rows, columns] each on average.
struct GroupedProduct {
  std::int64_t groups = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Scratch of such a product in bf16.
ScratchSteps grouped_product_scratch(const GroupedProduct& product, const LaunchDevice& device);

/// The backward pass of a fused layer or RMS norm over [rows, width].
struct NormBackward {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t element_bytes = 4;  ///< of the gain
  bool has_bias = false;           ///< whose gradient is asked for too
};

/// Scratch allocated after the gradients of input, gain and bias.
ScratchSteps norm_backward_scratch(const NormBackward& norm, const LaunchDevice& device);

/// Up to so many tokens an embedding's backward is one kernel without scratch (PyTorch,
/// EmbeddingBackwardKernel.cu).
inline constexpr std::int64_t kUnsortedTokens = 3072;

/// The backward pass of an embedding with int64 indices.
struct EmbeddingBackward {
  std::int64_t indices = 0;  ///< tokens
  std::int64_t rows = 0;     ///< of the table
  std::int64_t width = 0;
  std::int64_t element_bytes = 4;  ///< of the table
};

/// All that is asked for, the table's gradient included as the one result.
ScratchSteps embedding_backward_scratch(const EmbeddingBackward& embedding,
                                        const LaunchDevice& device);

}  // namespace memest
