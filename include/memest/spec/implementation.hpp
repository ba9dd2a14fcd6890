// Whose kernels and loop run a model: a framework, and the parts of it that a spec overrides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "memest/spec/releases/torch_release.hpp"
#include "memest/spec/releases/torchtitan_release.hpp"

namespace memest {

/// Each framework's traits stand in its row (framework.hpp).
enum class Framework : std::uint8_t {
  transformers,
  torchtitan,
  torchtune,
  litgpt,
  megatron,
  nanotron,
  nanogpt,
  textbook,
  plain
};

/// The kernel that computes softmax attention; it decides what is kept for the backward pass.
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
inline constexpr std::array kAttentionKernels = {
    AttentionKernel::sdpa,      AttentionKernel::sdpa_flash, AttentionKernel::sdpa_efficient,
    AttentionKernel::sdpa_math, AttentionKernel::sdpa_cudnn, AttentionKernel::eager,
    AttentionKernel::unfused,   AttentionKernel::flash_2,    AttentionKernel::te,
    AttentionKernel::textbook};

enum class LossKernel : std::uint8_t {
  upcast,   ///< logits cast to fp32, then cross-entropy (transformers)
  plain,    ///< cross-entropy in the logits' type (nanoGPT under autocast: log-softmax in fp32)
  chunked,  ///< as upcast, one part of the sequences after another (torchtitan, March 2025), or
            ///< the output head's product too (torchtune, litgpt)
  vocab_parallel,  ///< over shards of the vocabulary, in place on the logits in fp32 (Megatron)
  te               ///< as vocab_parallel by Transformer Engine's kernel, on the logits as they are
};
inline constexpr std::array kLossKernels = {LossKernel::upcast, LossKernel::plain,
                                            LossKernel::chunked, LossKernel::vocab_parallel,
                                            LossKernel::te};

/// Megatron's layers: megatron-core's layer specifications, and what there was before them.
enum class LayerSpec : std::uint8_t {
  local,  ///< its own modules
  te,     ///< Transformer Engine's, and with them the training program's defaults
  legacy  ///< Megatron-LM's ParallelTransformer of 2021 and 2022, with its fused kernels
};
inline constexpr std::array kLayerSpecs = {LayerSpec::local, LayerSpec::te, LayerSpec::legacy};

/// Transformer Engine's release, as far as they differ: the last of those that behave alike.
enum class TeRelease : std::uint8_t {
  te_2_2,  ///< all unread gradients are made anew in every backward
  te_2_9,  ///< those of single products stay, from 2.3 on; of experts' grouped ones they do not
  te_2_11  ///< from 2.10 on these stay too
};
inline constexpr std::array kTeReleases = {TeRelease::te_2_2, TeRelease::te_2_9,
                                           TeRelease::te_2_11};

/// transformers' release, as far as they differ: the last of those that behave alike.
enum class TransformersRelease : std::uint8_t {
  v5_18,  ///< from 4.54 on: rotary positions are a matrix product, a step's first
  v5_24   ///< from 5.19 on they are multiplied element by element
};
inline constexpr std::array kTransformersReleases = {TransformersRelease::v5_18,
                                                     TransformersRelease::v5_24};

/// The scope of torch.compile.
enum class CompileScope : std::uint8_t {
  off,
  blocks,  ///< each layer by itself, without graph breaks; torchtitan compiles its loss too
  whole    ///< the model with its loss, as one graph
};
inline constexpr std::array kCompileScopes = {CompileScope::off, CompileScope::blocks,
                                              CompileScope::whole};

enum class NormKernel : std::uint8_t {
  composite,  ///< written op by op (transformers' RMSNorm)
  fused       ///< one kernel
};

/// The program around the model; what each does stands in its row (framework.hpp).
enum class LoopKind : std::uint8_t {
  plain,       ///< PyTorch's idiom in few lines
  nanogpt,     ///< karpathy/nanoGPT's train.py
  trainer,     ///< the transformers Trainer, and accelerate with it
  sft,         ///< TRL's SFTTrainer, around that Trainer
  dpo,         ///< its DPOTrainer
  torchtitan,  ///< torchtitan's own
  torchtune,   ///< torchtune's recipes
  litgpt       ///< litgpt's finetune
};

/// The parts of a layer that Megatron captures as CUDA graphs, as its cuda_graph_scope has them.
enum class GraphScope : std::uint8_t {
  attn,            ///< the first norm, self-attention and its residual sum
  mlp,             ///< a dense layer's second norm, feed-forward and residual sum
  moe_router,      ///< the second norm, shared experts and the router
  moe_preprocess,  ///< what the dispatcher does before it sends tokens
  moe              ///< all of a layer of experts behind its attention
};
inline constexpr std::array kGraphScopes = {GraphScope::attn, GraphScope::mlp,
                                            GraphScope::moe_router, GraphScope::moe_preprocess,
                                            GraphScope::moe};

/// A dispatcher of Megatron carries tokens to their experts and back.
enum class TokenDispatcher : std::uint8_t {
  alltoall,  ///< a row for each expert of a token, permuted around NCCL's all-to-all
  hybridep   ///< DeepEP's Hybrid-EP: a row for each rank of a token, permuted by the library
};
inline constexpr std::array kTokenDispatchers = {TokenDispatcher::alltoall,
                                                 TokenDispatcher::hybridep};

/// CUDA graphs: kernels that the device launches one after another at one call of the host's.
struct CudaGraphs {
  bool full_iteration = false;  ///< all forwards and backwards of a step, as one graph
  std::array<bool, kGraphScopes.size()> scopes{};

  [[nodiscard]] bool has(GraphScope scope) const { return scopes[static_cast<std::size_t>(scope)]; }
  /// Whether parts of layers are captured.
  [[nodiscard]] bool of_layers() const { return scopes != std::array<bool, kGraphScopes.size()>{}; }
  [[nodiscard]] bool any() const { return full_iteration || of_layers(); }
};

std::string_view name_of(Framework framework);
std::string_view name_of(AttentionKernel kernel);
std::string_view name_of(LossKernel kernel);
std::string_view name_of(NormKernel kernel);
std::string_view name_of(LoopKind loop);
std::string_view name_of(LayerSpec layers);
std::string_view name_of(CompileScope compile);
std::string_view name_of(GraphScope scope);
std::string_view name_of(TokenDispatcher dispatcher);
std::string_view name_of(TeRelease release);
std::string_view name_of(TransformersRelease release);

/// Which of Liger's kernels stand in place of a transformers model's own, as its
/// apply_liger_kernel_to_MODEL_TYPE(...) names them.
struct LigerKernels {
  bool rope = false;
  bool rms_norm = false;
  bool gated = false;  ///< swiglu or geglu, whichever the model's feed-forward is
  bool fused_linear_cross_entropy = false;

  [[nodiscard]] bool any() const { return rope || rms_norm || gated || fused_linear_cross_entropy; }
};

/// A framework and the parts of it that the spec overrides; complete, nothing left to a default.
struct Implementation {
  Framework framework = {};
  AttentionKernel attention = AttentionKernel::sdpa;
  LossKernel loss = LossKernel::upcast;
  NormKernel norm = NormKernel::composite;
  LoopKind loop = {};
  bool loss_parallel = false;  ///< torchtitan's: reads shards of the vocabulary
  LayerSpec layers = LayerSpec::local;
  // Kernels of legacy layers: --no-{masked-softmax,bias-gelu,bias-dropout}-fusion turn them off.
  bool masked_softmax_fusion = true;
  bool bias_gelu_fusion = true;
  bool bias_dropout_fusion = true;
  bool deepspeed = false;  ///< Megatron-DeepSpeed: DeepSpeed's engine and optimizers around them
  TeRelease transformer_engine = TeRelease::te_2_11;
  TorchtitanRelease torchtitan = TorchtitanRelease::v0_2_2;
  TransformersRelease transformers = TransformersRelease::v5_18;
  TorchRelease torch = kRecordedTorchRelease;
  CompileScope compile = CompileScope::off;
  CudaGraphs cuda_graph = {};
  TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
  LigerKernels liger = {};

  /// Whether layers are compiled or captured, and so run otherwise than they are written.
  [[nodiscard]] bool is_compiled_or_captured() const {
    return compile != CompileScope::off || cuda_graph.any();
  }
};

}  // namespace memest
