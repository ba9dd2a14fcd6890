#include "graph/lower/liger/liger.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// How liger_kernel/transformers/monkey_patch.py patches a model.
struct Patch {
  std::string_view model_type;
  ActivationFunction gate = ActivationFunction::silu;
  // LigerRMSNormForGemma2 alone of these has in_place=False: its norms follow one another, and the
  // second would read the gradient that the first has overwritten.
  bool norm_in_place = true;  ///< the norm's backward writes over the gradient it is given
};
constexpr std::array kPatches = {
    Patch{"llama"},
    Patch{"mistral"},
    Patch{"qwen2"},
    Patch{"qwen3"},
    Patch{"gemma", ActivationFunction::gelu_tanh},
    Patch{"gemma2", ActivationFunction::gelu_tanh, false},
};

const Patch* patch_of(const DecoderContext& context) {
  const auto* const found =
      std::ranges::find(kPatches, context.habits.model_type, &Patch::model_type);
  return found == kPatches.end() ? nullptr : found;
}

bool gates_like(const DecoderSpec& decoder, const Patch& patch) {
  return std::ranges::all_of(decoder.kinds, [&](const LayerKind& kind) {
    const auto* dense = std::get_if<DenseFeedForward>(&kind.feed_forward);
    return dense != nullptr && dense->gated && !dense->fused_gate_up && !dense->bias &&
           dense->activation == patch.gate;
  });
}

/// One rotated tensor and whether its gradient comes by heads, which rope_backward then copies.
struct Rotated {
  std::string_view name;
  TensorId x = 0;
  bool copied = false;
};

/// The kernel writes in place, forward and backward. One node rotates queries and keys: where
/// both gradients are copied both copies are there before the first gradient goes.
std::vector<TensorId> rotate_parts(BlockBuilder& block, const std::vector<Rotated>& parts,
                                   const std::vector<TensorId>& tables) {
  Op op;
  op.kind = OpKind::rotary;
  op.name = parts.front().name;
  op.saved = tables;
  BackwardWriter backward(op);
  for (const Rotated& part : parts) {
    op.inputs.push_back(part.x);
    op.outputs.push_back(block.alias({part.name, "turned"}, part.x, block.tensor(part.x).shape));
    op.backward.bytes += Expr(2) * block.tensor(part.x).bytes();
    // rope_backward: dq.transpose(1, 2).contiguous(), no copy for a gradient that lies by tokens;
    // the kernel then rotates it in place.
    if (part.copied) {
      backward.give(part.x, backward.make(part.x, block.dtype_of(part.x)), Reach::through_view);
    } else {
      backward.hand_on(part.x, Reach::through_view);
    }
  }
  op.inputs.insert(op.inputs.end(), tables.begin(), tables.end());
  const std::vector<TensorId> rotated = op.outputs;
  block.emit(std::move(op));
  return rotated;
}

}  // namespace

std::optional<Unavailable> liger_refusal(const DecoderContext& context) {
  const LigerKernels& liger = context.liger();
  if (!liger.any()) return std::nullopt;
  const Patch* patch = patch_of(context);
  if (patch == nullptr) {
    std::string known;
    for (const Patch& one : kPatches) {
      known += (known.empty() ? "" : ", ") + std::string(one.model_type);
    }
    return Unavailable{"Liger's kernels are available in models of model_type " + known};
  }
  const auto refuses = [](const char* sentence) { return Unavailable{sentence}; };
  if (liger.gated && !gates_like(context.decoder, *patch)) {
    return refuses(
        "Liger's gated feed-forward has no bias and the activation of the model's family");
  }
  if (!context.policy.gradients)
    return refuses("Liger's kernels under 'inference' are not available yet");
  if (context.compiles_layers())
    return refuses("torch.compile beside Liger's kernels is not available yet");
  if (context.caches())
    return refuses("a key-value cache beside Liger's kernels is not available yet");
  if (liger.rms_norm && context.policy.multiprocessors == 0) {
    return refuses(
        "Liger's norm sums a row for every multiprocessor: their number is not known of this GPU");
  }
  if (!liger.fused_linear_cross_entropy) return std::nullopt;
  if (context.policy.end != ForwardEnd::cross_entropy) {
    return refuses("Liger's fused loss makes no logits: 'loss' has to be cross-entropy");
  }
  if (context.adapter != nullptr) {
    // _liger_for_causal_lm_loss reads the base weight alone, past an adapter or a trained copy.
    const auto& targets = context.adapter->targets;
    const bool of_head = std::ranges::any_of(
        targets, [&](const std::string& target) { return is_named(context.names.head, target); });
    if (of_head || !context.adapter->whole_modules.empty()) {
      return refuses(
          "an adapter of the output head beside Liger's fused loss is not available yet");
    }
  }
  if (context.policy.capability < kAmpere) {
    return refuses("Liger's fused loss on GPUs before compute capability 8.0 is not available yet");
  }
  return std::nullopt;
}

/// Keeps x and 1/rms of its rows. The backward writes over the output's gradient (but where a
/// model's norms follow one another) and sums the gain's in one row for every multiprocessor.
TensorId liger_norm(BlockBuilder& block, const DecoderContext& context, const NormPart& part,
                    TensorId x) {
  const Shape shape = block.tensor(x).shape;
  Shape rows = shape;
  rows.back() = Expr(1);
  const TensorId out = block.make({part.name}, shape, block.dtype_of(x));
  // RSTD is fp32 in the casting modes "llama" and "gemma", which all patched models have.
  const TensorId root = block.make({part.name, "reciprocal rms"}, rows, DType::fp32);
  const TensorId gain = block.parameter({part.name, "weight"}, part.gain);
  Op op;
  op.kind = OpKind::rmsnorm;
  op.name = part.name;
  op.inputs = {x, gain};
  op.outputs = {out, root};
  op.saved = {x, gain, root};
  BackwardWriter backward(op);
  const bool trains = block.needs_gradient(gain);
  const bool in_place = patch_of(context)->norm_in_place;
  BackwardWriter::Made sums = 0;
  // rms_norm_backward: _dW of [sm_count, n_cols] in fp32; 132 rows of 4096 are 2.2 MB.
  const Shape partial = {Expr(context.policy.multiprocessors), shape.back()};
  if (trains) {
    sums = backward.make(scratch(block, {part.name, "partial sums"}, partial, DType::fp32),
                         DType::fp32);
  }
  if (in_place) {
    op.backward.bytes = Expr(3) * block.tensor(x).bytes();
    backward.hand_on(x, Reach::through_view);
  } else {
    // in_place=False: dX = torch.zeros_like(dY).
    backward.give(x, backward.make(x, block.dtype_of(x)), Reach::through_view);
  }
  if (trains) {
    // _dW.sum(dim=0).to(W.dtype).
    auto of_gain = backward.make(gain, DType::fp32);
    backward.launch(sum_between(partial, {shape.back()}, DType::fp32));
    if (block.dtype_of(gain) != DType::fp32) {
      const auto narrow = backward.make(gain, block.dtype_of(gain));
      backward.drop(of_gain);
      of_gain = narrow;
    }
    backward.drop(sums);
    backward.give(gain, of_gain);
  }
  block.emit(std::move(op));
  return out;
}

AttentionInputs liger_rotate(BlockBuilder& block, const RotaryCall& call, AttentionInputs inputs,
                             const std::vector<TensorId>& tables) {
  const DecoderContext& context = call.context;
  const AttentionCall attention = attention_call(context, call.kind);
  const SoftmaxAttention& spec = context.attention;
  // Products of batches answer gradients by heads, and so does the sum over repeated heads; flash
  // attention's of padded channels are parts of wider ones.
  const bool padded = attention.kernel == AttentionKernel::sdpa_flash && spec.head_dim % 8 != 0;
  const bool by_heads = attention.kernel == AttentionKernel::eager ||
                        attention.kernel == AttentionKernel::sdpa_math || padded;
  const Rotated q = {"q_rotary", inputs.q.id, by_heads && (spec.heads > 1 || padded)};
  const Rotated k = {"k_rotary", inputs.k.id,
                     (by_heads || attention.repeats) && (spec.kv_heads > 1 || padded)};
  if (q.copied && k.copied) {
    const std::vector<TensorId> both = rotate_parts(block, {q, k}, tables);
    inputs.q = {both[0]};
    inputs.k = {both[1]};
    return inputs;
  }
  inputs.q = {rotate_parts(block, {q}, tables).front()};
  inputs.k = {rotate_parts(block, {k}, tables).front()};
  return inputs;
}

/// Keeps gate and up, and the backward writes both gradients over them: one node, as an operation
/// for each that it keeps. LigerSiLUMulFunction saves a and b and returns them from its backward:
/// eager silu · up keeps silu's output too, a third [tokens, ffn_size].
TensorId liger_gate(BlockBuilder& block, TensorId gate, TensorId up) {
  constexpr std::string_view kName = "gate_times_up";
  const Shape shape = block.tensor(gate).shape;
  const TensorId kept = block.alias({kName, "up"}, up, shape);
  Op keeps;
  keeps.kind = OpKind::view;
  keeps.name = kName;
  keeps.inputs = {up};
  keeps.outputs = {kept};
  keeps.saved = {up};
  BackwardWriter(keeps).give_kept(up);
  block.emit(std::move(keeps));
  const TensorId out = block.make({kName}, shape, block.dtype_of(gate));
  Op op;
  op.kind = OpKind::activation;
  op.name = kName;
  op.inputs = {gate, kept};
  op.outputs = {out};
  op.saved = {gate};
  // Reads the output's gradient, gate and up, and writes both.
  op.backward.bytes = Expr(5) * block.tensor(gate).bytes();
  BackwardWriter backward(op);
  backward.give_kept(gate);
  backward.hand_on(kept);
  block.emit(std::move(op));
  return out;
}

}  // namespace memest
