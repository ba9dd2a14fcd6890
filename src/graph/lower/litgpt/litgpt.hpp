// Parts of litgpt's GPT that are written otherwise than in other programs.
#pragma once

#include <string_view>

#include "graph/lower/attention/attention.hpp"

namespace memest {

/// Whether an adapter is of queries, keys or values, which one product makes.
[[nodiscard]] bool adapts_joint_parts(const DecoderContext& context);

/// The copy of the numbers of those of their channels that are adapted, where not all are.
inline constexpr std::string_view kAdaptedChannels = "adapted channels";

/// Queries, keys and values by one product of `shape`, and LoRA of those that are adapted
/// (litgpt/lora.py, LoRAQKVLinear.forward).
TensorId joint_lora(BlockBuilder& block, const DecoderContext& context, const Projection2d& shape,
                    const Rows& rows);

/// The tokens' rows; beside quantised weights by bitsandbytes' StableEmbedding, which
/// finetune/lora.py puts in the table's place behind mark_only_lora_as_trainable() and the
/// optimizer: its gradients are made and stay.
TensorId litgpt_token_rows(BlockBuilder& block, const DecoderContext& context, TensorId tokens);

/// Queries and keys turned by the model's tables, and joined with what does not rotate
/// (litgpt/model.py, CausalSelfAttention.forward and apply_rope).
AttentionInputs rotated_joined(BlockBuilder& block, const RotaryCall& call, AttentionInputs inputs);

/// The model's tables of cosines and sines have the type of the weights where they are those that
/// it was made with, for all its positions; made anew for shorter sequences they are fp32
/// (GPT.max_seq_length). FSDP has its own.
DType rotary_type(const DecoderSpec& decoder, const LoweringPolicy& policy);

/// The final norm, the output head, what Fabric makes of its answer, and the loss.
TensorId litgpt_head_and_loss(BlockBuilder& block, const DecoderContext& context, TensorId x);

}  // namespace memest
