// Whether bitsandbytes multiplies by 4-bit codes themselves, or by the weight made from them.
#pragma once

#include <cstdint>

#include "memest/spec/dtype.hpp"
#include "memest/spec/gpu/gpu_target.hpp"

namespace memest {

/// A product of [rows, in] with a weight of [out, in], on a GPU.
struct FourBitProduct {
  std::int64_t rows = 1;
  std::int64_t out = 1;
  std::int64_t in = 1;
  DType dtype = DType::bf16;
  ComputeCapability capability;
  std::int64_t multiprocessors = 1;
};

/// bitsandbytes 0.50, backends/cuda/ops.py: bitsandbytes::gemm_4bit. 2,048 tokens go the way of
/// dequantized weights on every GPU, four of 16-bit types on none.
bool multiplies_codes(const FourBitProduct& product);

}  // namespace memest
