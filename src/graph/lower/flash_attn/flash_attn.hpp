// The flash-attn package (2.8.3) as transformers 5.17 calls it
// (modeling_flash_attention_utils.py, _flash_attention_forward).
#pragma once

#include <optional>

#include "graph/lower/attention/attention.hpp"

namespace memest {

/// Why the package does not run the call, or nothing.
std::optional<Unavailable> package_refusal(const DecoderContext& context,
                                           const AttentionCall& call);

/// Queries, keys and values in the type of the call (fa_peft_integration_check).
AttentionInputs cast_for_package(BlockBuilder& block, const DecoderContext& context,
                                 const AttentionInputs& inputs);

/// The mixed values of `inputs`, as [b, s, a·d].
TensorId package_attention(BlockBuilder& block, const DecoderContext& context,
                           const AttentionCall& call, AttentionInputs inputs);

}  // namespace memest
