// Liger's kernels (liger-kernel 0.8.5, ops/*.py) in place of a transformers model's own: each an
// autograd function with what it saves, makes and writes over.
#pragma once

#include <optional>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// Why Liger's kernels cannot stand in this model, or nothing.
std::optional<Unavailable> liger_refusal(const DecoderContext& context);

/// LigerRMSNormFunction.
TensorId liger_norm(BlockBuilder& block, const DecoderContext& context, const NormPart& part,
                    TensorId x);

/// LigerRopeFunction: rotates queries and keys in place by `tables` of cosines and sines.
AttentionInputs liger_rotate(BlockBuilder& block, const RotaryCall& call, AttentionInputs inputs,
                             const std::vector<TensorId>& tables);

/// LigerSiLUMulFunction or LigerGELUMulFunction: the function of `gate`, times `up`.
TensorId liger_gate(BlockBuilder& block, TensorId gate, TensorId up);

/// LigerFusedLinearCrossEntropyFunction: output head and loss, and their gradients, in the forward.
TensorId liger_loss(BlockBuilder& block, const DecoderContext& context, TensorId hidden,
                    TensorId targets);

}  // namespace memest
