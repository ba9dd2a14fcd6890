// Tensors that fused attention's backward kernels make beside the gradients, whoever calls them.
#pragma once

#include <cstdint>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

struct FusedCore {
  Dimensions dims;
  std::int64_t head_dim = 0;  ///< d of the dimensions
  DType dtype = DType::bf16;
  bool grouped = false;                                  ///< fewer key/value heads than query heads
  Expr rows = Symbol::seq_len_128;                       ///< of the queries, rounded up to 128
  AttentionKernel kernel = AttentionKernel::sdpa_cudnn;  ///< or sdpa_flash
};

/// Cuts `core` to the late half of its queries.
FusedCore half_of(FusedCore core);

/// The channels of a head that flash attention 2 accumulates in fp32: 80 as 96, 160 as 192
/// (flash_api.cpp: head_size_rounded).
Expr accumulated_width(const Dimensions& dims, std::int64_t head_dim);

/// Flash attention 2: row sums, the fp32 accumulator of the query gradient, and with grouped heads
/// the key and value gradients of every query head.
void flash_backward(BlockBuilder& block, const FusedCore& core, BackwardWriter& backward);

/// The workspace that cuDNN's frontend asks for: 4·b·a·s·d + 4·b·a·s bytes.
void cudnn_backward(BlockBuilder& block, const FusedCore& core, BackwardWriter& backward);

/// Either, by the kernel.
void fused_backward(BlockBuilder& block, const FusedCore& core, BackwardWriter& backward);

/// Into how many parts flash attention cuts the keys where batch and heads alone would leave
/// multiprocessors idle: the first that is at least 85 % as well filled as the best (PyTorch 2.11,
/// flash_api.cpp, set_params_splitkv and num_splits_heuristic).
std::int64_t flash_splits(const DecoderContext& context);

}  // namespace memest
