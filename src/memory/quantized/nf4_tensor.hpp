// torchao 0.13, dtypes/nf4tensor.py: NF4Tensor.from_tensor, which makes codes on the device by
// PyTorch's own kernels, in chunks.
#pragma once

#include <cstdint>
#include <optional>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/spec/compression/quantized.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// How weights become codes.
struct Nf4Making {
  const QuantizedWeights& quantized;
  DType type;                                 ///< of the weights
  const std::optional<LaunchDevice>& device;  ///< an absent one's kernels take no scratch
};

/// The tensors of an NF4Tensor, made of `weight`, which the caller has on the device; what is made
/// on the way is gone.
HeldVector make_nf4_tensor(const Nf4Making& making, const CodedMatrix& weight, const Label& label,
                           Recorder& recorder);

/// get_original_weight(): the weight that codes stand for; what it is made from is gone.
HeldStorage make_original_weight(const Nf4Making& making, const CodedMatrix& weight,
                                 const Label& label, Recorder& recorder);

}  // namespace memest
