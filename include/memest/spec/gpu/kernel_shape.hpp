// The shape of one kernel call, as benchmarks time it and time laws price it. Sizes are counts of
// elements unless a name says bytes.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "memest/spec/dtype.hpp"

namespace memest {

/// The three matrix products of a linear layer, by what they make. They run different kernels:
/// operands transposed (TN), as stored (NN), and NT.
enum class MatmulPass : std::uint8_t { forward, data_gradient, weight_gradient };
/// "forward", "data-gradient", "weight-gradient".
std::string_view name_of(MatmulPass pass);

/// How operands of 8 and 4 bits get their scale. See MatmulShape::cast_included.
enum class OperandScaling : std::uint8_t {
  none,        ///< 16 bits and wider
  per_tensor,  ///< dynamic: the cast reads the operand for its largest value first
  block_128,   ///< a scale for 1 × 128 elements
  fixed,       ///< a scale given beforehand
  block_16     ///< NVFP4: an fp8 scale for 16 elements, and one for the tensor
};
/// "none", "per-tensor", "block-128", "fixed", "block-16".
std::string_view name_of(OperandScaling scaling);

/// C[m, n] = A[m, k] · B[k, n], `batch` times.
struct MatmulShape {
  DType operand = DType::bf16;
  DType result = DType::bf16;
  OperandScaling scaling = OperandScaling::none;
  bool cast_included = false;  ///< the time has the cast of A to `operand` in it
  bool tensor_float = false;   ///< fp32 operands through TF32
  MatmulPass pass = MatmulPass::forward;
  bool accumulates = false;  ///< C is read and added to
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  friend auto operator<=>(const MatmulShape&, const MatmulShape&) = default;
};

enum class KernelPass : std::uint8_t { forward, backward };
/// "forward", "backward".
std::string_view name_of(KernelPass pass);

/// Fused attention over `batch` sequences of `seq_len` tokens.
struct AttentionShape {
  std::string kernel;  ///< "flash_attention", "fa3", "cudnn"; empty: not said
  DType dtype = DType::bf16;
  KernelPass pass = KernelPass::forward;
  bool causal = true;
  std::int64_t batch = 1;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t seq_len = 0;
  std::int64_t head_dim = 0;        ///< of queries and keys
  std::int64_t value_head_dim = 0;  ///< of values and outputs

  friend auto operator<=>(const AttentionShape&, const AttentionShape&) = default;
};

/// Kernels bound by memory, or `by_element` by what they do for each: PyTorch's element-wise
/// kernels move whole vectors but where an operand is broadcast or of a narrower type than the
/// result (aten/src/ATen/native/cuda/CUDALoops.cuh).
enum class StreamOp : std::uint8_t {
  read,
  write,
  copy,
  scale,
  add,
  triad,
  by_element,
  cast,
  gelu,
  silu_mul,
  dropout,
  softmax,
  layernorm,
  rmsnorm,
  cross_entropy,
  embedding,
  rotary,
  adamw
};
/// "read", "silu-mul", "cross-entropy", ...
std::string_view name_of(StreamOp op);

/// `rows` rows of `columns` elements. `bytes` are what must be read and written once.
struct StreamShape {
  StreamOp op = StreamOp::copy;
  KernelPass pass = KernelPass::forward;
  DType dtype = DType::bf16;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t bytes = 0;

  friend auto operator<=>(const StreamShape&, const StreamShape&) = default;
};

enum class CollectiveOp : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all };
/// "all_reduce", "all_gather", ...: NCCL's names.
std::string_view name_of(CollectiveOp op);

/// A collective over `gpus` GPUs of a node; `bytes` as nccl-tests counts: the whole buffer.
struct CollectiveShape {
  CollectiveOp op = CollectiveOp::all_reduce;
  std::int64_t gpus = 2;
  std::int64_t bytes = 0;

  friend auto operator<=>(const CollectiveShape&, const CollectiveShape&) = default;
};

enum class TransferPath : std::uint8_t {
  host_to_device_pinned,
  device_to_host_pinned,
  host_to_device_pageable,
  device_to_host_pageable,
  managed_migration  ///< first touch on the device of pages on the host
};
/// "host-to-device-pinned", ...
std::string_view name_of(TransferPath path);

struct TransferShape {
  TransferPath path = TransferPath::host_to_device_pinned;
  std::int64_t bytes = 0;

  friend auto operator<=>(const TransferShape&, const TransferShape&) = default;
};

/// An empty kernel, back to back.
enum class LaunchPath : std::uint8_t { stream, graph };
/// "stream", "graph".
std::string_view name_of(LaunchPath path);

struct LaunchShape {
  LaunchPath path = LaunchPath::stream;

  friend auto operator<=>(const LaunchShape&, const LaunchShape&) = default;
};

using KernelShape = std::variant<MatmulShape, AttentionShape, StreamShape, CollectiveShape,
                                 TransferShape, LaunchShape>;

/// The shape in words: "matmul bf16 forward 4096 × 14336 × 4096", "softmax bf16 forward 8192 ×
/// 4096", "host-to-device-pinned 16 MiB".
std::string text_of(const KernelShape& shape);

}  // namespace memest
