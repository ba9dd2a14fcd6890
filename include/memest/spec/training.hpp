// One training step as asked for: sizes, precision, optimizer, recompute and the framework whose
// kernels run. What a forward pass alone asks for is the part that inference shares.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "memest/spec/optimizer.hpp"
#include "memest/spec/recipe.hpp"

namespace memest {

enum class Framework : std::uint8_t {
  transformers,
  torchtitan,
  megatron,
  nanogpt,
  textbook,
  plain
};
inline constexpr std::array kFrameworks = {Framework::transformers, Framework::torchtitan,
                                           Framework::megatron,     Framework::nanogpt,
                                           Framework::textbook,     Framework::plain};

/// What computes softmax attention, and so what it keeps for the backward pass.
enum class AttentionKernel : std::uint8_t {
  sdpa,  ///< PyTorch chooses by capability, type, mask and grouping
  sdpa_flash,
  sdpa_efficient,
  sdpa_math,
  sdpa_cudnn,
  eager,    ///< matmul, softmax, matmul written out
  unfused,  ///< Megatron's own: one scaled product into a global buffer, softmax, product
  flash_2,  ///< the flash-attn package
  te,       ///< Transformer Engine's own: cuDNN's fused attention
  textbook  ///< the field's paper formula: scores, softmax and dropout kept in 16 bit
};

enum class LossKernel : std::uint8_t {
  upcast,  ///< logits cast to fp32, then cross-entropy (transformers)
  plain,   ///< cross-entropy in the logits' type (nanoGPT under autocast: log-softmax in fp32)
  vocab_parallel,  ///< over shards of the vocabulary, in place on the logits in fp32 (Megatron)
  te               ///< the same by Transformer Engine's kernel, on the logits as they are
};

/// Megatron-core's layer specifications.
enum class LayerSpec : std::uint8_t {
  local,  ///< its own modules
  te      ///< Transformer Engine's, and with them the training program's defaults
};

/// Transformer Engine's release, as far as they differ: the last of those that behave alike.
enum class TeRelease : std::uint8_t {
  te_2_2,  ///< all unread gradients are made anew in every backward
  te_2_9,  ///< those of single products stay, from 2.3 on; of experts' grouped ones they do not
  te_2_11  ///< from 2.10 on these stay too
};

/// What torch.compile compiles.
enum class CompileScope : std::uint8_t {
  off,
  blocks  ///< each layer by itself, without graph breaks; torchtitan compiles its loss too
};

enum class NormKernel : std::uint8_t {
  composite,  ///< written op by op (transformers' RMSNorm)
  fused       ///< one kernel
};

/// The program around the model.
enum class LoopKind : std::uint8_t {
  plain,      ///< PyTorch's idiom in few lines
  nanogpt,    ///< karpathy/nanoGPT's train.py
  trainer,    ///< the transformers Trainer, and accelerate with it
  torchtitan  ///< torchtitan's own
};

std::string_view name_of(Framework framework);
std::string_view name_of(AttentionKernel kernel);
std::string_view name_of(LossKernel kernel);
std::string_view name_of(NormKernel kernel);
std::string_view name_of(LoopKind loop);
std::string_view name_of(LayerSpec layers);
std::string_view name_of(CompileScope compile);
std::string_view name_of(TeRelease release);

/// A framework and the parts of it that the spec overrides; complete, nothing left to a default.
struct Implementation {
  Framework framework = Framework::transformers;
  AttentionKernel attention = AttentionKernel::sdpa;
  LossKernel loss = LossKernel::upcast;
  NormKernel norm = NormKernel::composite;
  LoopKind loop = LoopKind::plain;
  bool loss_parallel = false;  ///< torchtitan's: reads shards of the vocabulary
  LayerSpec layers = LayerSpec::local;
  TeRelease transformer_engine = TeRelease::te_2_11;
  CompileScope compile = CompileScope::off;
};

// What is recomputed in the backward pass instead of kept.
struct NoRecompute {};
/// Which layers full recompute takes together (Megatron's recompute_method).
enum class RecomputeMethod : std::uint8_t {
  uniform,  ///< every `layers` layers share a checkpoint
  block     ///< the first `layers` layers of a stage have one each, the others none
};
/// Every block keeps its input only.
struct FullRecompute {
  bool reentrant = false;
  RecomputeMethod method = RecomputeMethod::uniform;
  std::int64_t layers = 1;
  bool distribute = false;  ///< kept inputs are cut over the tensor-parallel ranks
};
/// Parts of a layer are recomputed: by default the attention core (scores, softmax, dropout).
struct SelectiveRecompute {
  bool attention_core = true;
  bool feed_forward = false;
};
struct EveryRecompute {
  std::int64_t every = 1;
};                        ///< one checkpoint for every `every` blocks
struct SqrtRecompute {};  ///< ⌈√L⌉ checkpoints
using Recompute =
    std::variant<NoRecompute, FullRecompute, SelectiveRecompute, EveryRecompute, SqrtRecompute>;

/// "none", "full", "selective", "every 2", "sqrt".
std::string text_of(const Recompute& recompute);

enum class ZeroGrad : std::uint8_t {
  set_to_none,  ///< gradients are freed before the next forward
  zeros         ///< gradients stay allocated
};

/// What the backward pass starts from.
enum class TrainingLoss : std::uint8_t { cross_entropy, sum_of_logits };

/// One pass of the model over a batch, with or without a backward behind it.
struct ForwardSpec {
  std::int64_t seq_len = 0;
  std::int64_t micro_batch = 1;  ///< sequences a GPU at once
  Recipe recipe;
  Implementation implementation;
  bool dropout = true;     ///< false: the model's dropout probabilities count as zero
  bool use_cache = false;  ///< the model fills a key-value cache and answers it
};

struct TrainingSpec : ForwardSpec {
  std::int64_t gradient_accumulation = 1;  ///< micro-steps a step
  Optimizer optimizer;
  OptimizerImplementation optimizer_implementation = OptimizerImplementation::foreach_;
  Recompute recompute = NoRecompute{};
  TrainingLoss loss = TrainingLoss::cross_entropy;
  bool clip_gradients = false;
  ZeroGrad zero_grad = ZeroGrad::set_to_none;
  /// What the precision is under FSDP, whose own policy takes the place of autocast; none where it
  /// is the same.
  std::optional<Recipe> recipe_of_fsdp = {};
  bool hold_outputs = false;  ///< the logits stay referenced until the next forward
  std::int64_t steps = 2;     ///< how many the timeline replays
};

}  // namespace memest
