// Softmax attention as its kernels see it: queries, keys and values by heads, and what each kernel
// keeps of them. Rules: PyTorch 2.11 (native_functions and derivatives of scaled dot product
// attention) and transformers 5.17 (integrations/sdpa_attention.py, eager_attention_forward).
#pragma once

#include <optional>
#include <string_view>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// A tensor of [b, heads, s, d] and how it lies in memory.
struct Heads {
  TensorId id = 0;
  bool packed =
      false;  ///< contiguous in that order; otherwise a transposed view of [b, s, heads, d]
  bool expanded = false;  ///< one stored head seen as all of them
};

struct AttentionInputs {
  Heads q;
  Heads k;
  Heads v;
};

/// The kernel that runs: the spec's with `sdpa` resolved.
struct AttentionCall {
  AttentionKernel kernel = AttentionKernel::eager;
  bool masked = false;         ///< an explicit mask is passed
  std::string_view mask = {};  ///< the shared one, by name
  bool mask_by_head = false;   ///< of its own for every head (ALiBi)
  std::int64_t window = 0;     ///< of the sliding layer; 0: none
  bool grouped = false;        ///< fewer key/value heads reach the kernel than query heads
  bool repeats = false;        ///< keys and values are written out for every query head
  bool broadcast = false;      ///< a single key/value head is left to broadcasting (Falcon)
  bool packed = false;         ///< its queries lie by heads (Heads::packed)
  Frame* function = nullptr;   ///< attention's own, in which some families write their scores
  bool gradients = true;       ///< of the operands are wanted
  double dropout = 0;
  DType dtype = DType::bf16;  ///< of the operands
  /// Channels of a value's head where they are others than a query's.
  std::optional<std::int64_t> value_dim = {};
};

/// Where a rotation happens: the model, the layer's kind, and attention's own function.
struct RotaryCall {
  const DecoderContext& context;
  const LayerKind& kind;
  Frame& attention;
};

/// The type in which attention runs: autocast's, or the model's.
DType operand_type(const LoweringPolicy& policy);

/// The call that attention of a layer of `kind` runs.
AttentionCall attention_call(const DecoderContext& context, const LayerKind& kind);

/// Why PyTorch would refuse the kernel that the policy forces, or nothing.
std::optional<Unavailable> kernel_refusal(const DecoderContext& context, const LayerKind& kind);

/// Whether multiprocessors have at least 160 KiB of shared memory.
bool has_large_shared_memory(ComputeCapability capability);

/// The kernel that `sdpa` means for these operands. Reference: which backend the policy's release
/// of PyTorch takes with the cuDNN that it is published with (2.11: 9.19), by capability, type,
/// head size, mask, grouping and dropout.
AttentionKernel resolve_sdpa(const AttentionCall& call, std::int64_t head_dim,
                             const LoweringPolicy& policy);
/// As above, where torchtitan asks for cuDNN, flash or math, in this order (0.2.2,
/// models/attention.py, ScaledDotProductAttentionWrapper).
AttentionKernel resolve_in_torchtitan(const AttentionCall& call, std::int64_t head_dim,
                                      const LoweringPolicy& policy);
/// As above, where it asks for flash, the memory-efficient kernel or math, and from compute
/// capability 10.0 on for cuDNN before them (0.1.0, models/attention.py,
/// ScaledDotProductAttention). Before it asked, PyTorch's own order of the time was the same (2.6:
/// cuDNN last).
AttentionKernel resolve_in_early_torchtitan(const AttentionCall& call, std::int64_t head_dim,
                                            const LoweringPolicy& policy);

/// The mixed values of `inputs`, as [b, s, a·d].
TensorId mixed_values(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call,
                      const AttentionInputs& inputs);
/// scores, softmax and values by a fused kernel, the math fallback, or op by op; answers [b, s,
/// a·d].
TensorId fused_attention(BlockBuilder& block, const DecoderContext& context, AttentionCall call,
                         AttentionInputs inputs);
/// The parts of a packed sequence one after the other, joined.
TensorId attention_by_parts(BlockBuilder& block, const RotaryCall& call,
                            const AttentionInputs& inputs);
/// As fused_attention(), over context-parallel ranks.
TensorId ring_attention(BlockBuilder& block, const DecoderContext& context,
                        const AttentionCall& call, const AttentionInputs& inputs);
TensorId math_attention(BlockBuilder& block, const DecoderContext& context,
                        const AttentionCall& call, AttentionInputs inputs);
TensorId eager_attention(BlockBuilder& block, const DecoderContext& context,
                         const AttentionCall& call, AttentionInputs inputs);
TensorId textbook_attention(BlockBuilder& block, const DecoderContext& context,
                            const AttentionCall& call, AttentionInputs inputs);

/// Queries and keys of a layer of `kind` by the positions' angles; `attention` calls. Answers both
/// with the values as they were.
AttentionInputs rotate(BlockBuilder& block, const RotaryCall& call, AttentionInputs inputs);

/// Keys and values joined to those that the layer's cache holds: packed copies, which the model
/// answers.
void update_cache(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind,
                  AttentionInputs& inputs);

/// The name by which layers know DeepSeek V2's table of complex rotations.
inline constexpr std::string_view kComplexRotations = "complex rotations";

/// Whether keys and values are repeated for the query heads that share them, as all families do but
/// those that write them out (Falcon-40B) or leave a single head to broadcasting (Falcon-7B).
bool repeats_heads(const DecoderContext& context);
bool broadcasts_heads(const DecoderContext& context);
/// Keys and values that every query head has its own of, as torchtitan's repeat_kv writes them out
/// of [b, s, k, d]; xk and xv have their names until both are there.
AttentionInputs repeated_by_tokens(BlockBuilder& block, const DecoderContext& context,
                                   const AttentionInputs& inputs);
/// As above, of [b, k, s, d]; each repeat takes the name of what it repeats.
AttentionInputs repeated_by_heads(BlockBuilder& block, const DecoderContext& context,
                                  const AttentionInputs& inputs);
/// A single head as a product broadcasts it; any other as it is.
Heads broadcast_heads(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                      Heads x);
/// Keys or values repeated to all query heads: a copy, but one head is only seen a times.
Heads repeat_heads(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                   Heads x);
/// `x` in the operands' type; an expanded tensor is written out by the cast.
Heads cast_heads(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                 Heads x);
/// `x` as a batched product reads it: a transposed view of several sequences is copied first.
Heads product_operand(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                      Heads x);

/// The mask that scaled dot product attention is given, in the operands' type, its columns rounded
/// up to 8 where the kernel wants that.
TensorId mask_tensor(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call,
                     std::optional<TensorId> ready);
/// As above, for one of autocast's arguments, which it casts from the last to the first.
std::optional<TensorId> ready_mask(BlockBuilder& block, const DecoderContext& context,
                                   const AttentionCall& call);

/// FLOPs of queries times keys, 2·b·a·s·s·d, and of probabilities times values.
Expr score_flops(const Dimensions& dims);
Expr value_flops(const Dimensions& dims);

/// The shape of scores, [b, a, s, s].
Shape score_shape(const Dimensions& dims);

}  // namespace memest
