// Releases of PyTorch, by what they allocate for the same script.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace memest {

enum class TorchRelease : std::uint8_t {
  v2_6,
  v2_7,
  v2_8,
  v2_9,
  v2_10,
  v2_11,
  v2_12,
  v2_13,
  v2_14,
  v2_15
};

/// How long a workspace of cuBLAS or cublasLt lives (aten/src/ATen/cuda/CublasHandlePool.cpp).
enum class WorkspaceLife : std::uint8_t {
  process,  ///< from a thread's first call on
  call,     ///< for each product
  shared    ///< cublasLt's: it takes cuBLAS's
};

/// The heads for which sdpa puts cuDNN first, on compute capability 9.x and 10.x, in 16 bits
/// (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, check_prefer_cudnn_attention and
/// check_cudnn_tensor_shapes).
enum class CudnnHeads : std::uint8_t {
  none,         ///< cuDNN comes last
  by_hardware,  ///< multiples of 8 up to 256 on 9.x and up to 128 on 10.x
  by_pass       ///< multiples of 8 up to 256 without gradients; with them up to 128, and 256
};

/// A release, by what it was seen to do with the same script.
struct TorchRow {
  TorchRelease release = TorchRelease::v2_11;
  std::string_view name;
  WorkspaceLife cublas = WorkspaceLife::process;
  WorkspaceLife cublas_lt = WorkspaceLife::process;
  bool runs_on_blackwell = true;  ///< its wheels have kernels for compute capability 10.0 and later
  /// cuBLAS's workspace is Hopper's on 10.x and 12.x too (pytorch/pytorch#175344).
  bool large_on_blackwell = false;
  CudnnHeads cudnn = CudnnHeads::by_hardware;
  bool cudnn_drops_out = true;          ///< cuDNN is first with dropout too
  bool efficient_takes_groups = false;  ///< the memory-efficient kernel takes grouped heads
  /// Without dropout these kernels make their Philox state, which autograd saves.
  bool flash_keeps_state = true;
  bool efficient_keeps_state = false;
};

inline constexpr std::array kTorchReleases = {
    TorchRelease::v2_6,  TorchRelease::v2_7,  TorchRelease::v2_8,  TorchRelease::v2_9,
    TorchRelease::v2_10, TorchRelease::v2_11, TorchRelease::v2_12, TorchRelease::v2_13,
    TorchRelease::v2_14, TorchRelease::v2_15};

const TorchRow& row_of(TorchRelease release);
/// "2.6" ... "2.15".
std::string_view name_of(TorchRelease release);

/// The release that everything is held to; others are, as far as they differ from it.
inline constexpr TorchRelease kRecordedTorchRelease = TorchRelease::v2_11;

}  // namespace memest
