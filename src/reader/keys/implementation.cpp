// The keys of `implementation`.
#include "reader/keys/implementation.hpp"

#include "memest/spec/framework.hpp"

namespace memest {
namespace {

// The reader knows each framework's own defaults and refuses a part that the framework does not
// have.
constexpr Word kFrameworks[] = {{"transformers"}, {"nanogpt"},    {"textbook"},
                                {"plain"},        {"torchtitan"}, {"torchtune"},
                                {"litgpt"},       {"megatron"},   {"nanotron"}};
// torch.nn.attention.SDPBackend names the kernels behind sdpa: FLASH_ATTENTION,
// EFFICIENT_ATTENTION, MATH and CUDNN_ATTENTION.
constexpr Word kAttentions[] = {{"default"},
                                {"sdpa"},
                                {"sdpa-flash"},
                                {"sdpa-efficient"},
                                {"sdpa-math"},
                                {"sdpa-cudnn"},
                                {"eager"},
                                {"unfused"},
                                {"flash-2"},
                                {"flash-3", "the attention kernel 'flash-3'"},
                                {"flex", "the attention kernel 'flex'"},
                                {"te"}};
constexpr Word kLosses[] = {{"upcast"},         {"plain"},
                            {"chunked"},        {"fused-linear", "the fused linear loss"},
                            {"vocab-parallel"}, {"te"}};
constexpr Word kNormKernels[] = {{"composite"}, {"fused"}};
constexpr Word kActivationKernels[] = {{"unfused"}, {"fused", "the fused activation"}};
constexpr Word kRotaries[] = {{"composite"}, {"fused", "the fused rotary embedding"}};
constexpr Word kLayerSpecs[] = {{"te"}, {"local"}, {"legacy"}};
constexpr Word kLoops[] = {{"plain"}, {"nanogpt"}, {"trainer"}, {"sft"}, {"dpo"}};
constexpr Word kCompiles[] = {{"off"}, {"blocks"}, {"whole"}};
constexpr Word kCudaGraphs[] = {{"off"}, {"full_iteration"}};
constexpr Word kGraphScopeWords[] = {
    {"attn"}, {"mlp"}, {"moe_router"}, {"moe_preprocess"}, {"moe"}};
constexpr Shapes kGraphScopeItem = {choice(kGraphScopeWords)};
constexpr Word kTokenDispatchers[] = {
    {"alltoall"}, {"hybridep"}, {"deepep", "DeepEP's own dispatch of tokens"}};
constexpr Word kTorches[] = {{"2.11"}, {"2.6"},  {"2.7"},  {"2.8"},  {"2.9"},
                             {"2.10"}, {"2.12"}, {"2.13"}, {"2.14"}, {"2.15"}};
constexpr Word kTransformersReleases[] = {{"5.18"}, {"5.24"}};
constexpr Word kTeReleases[] = {{"2.11"}, {"2.9"}, {"2.2"}};
constexpr Word kTorchtitanReleases[] = {{"0.2.2"}, {"0.1.0"}, {"2025-03"}, {"2024-12"}};

// Arguments of liger_kernel's apply_liger_kernel_to_MODEL_TYPE(...), with its defaults.
constexpr Key kLigerKeys[] = {
    {.name = "rope",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "Rotary positions in place, in one kernel."},
    {.name = "rms_norm", .shapes = {flag()}, .fallback = "true", .doc = "RMS norms in one kernel."},
    {.name = "swiglu",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "silu(gate) times up in one kernel, of models that have it."},
    {.name = "geglu",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "gelu(gate) times up in one kernel, of models that have it."},
    {.name = "fused_linear_cross_entropy",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "Output head, loss and both gradients part by part of the tokens, without logits."},
    {.name = "cross_entropy",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The loss of whole logits in place (not available yet)."},
};

constexpr Key kImplementationKeys[] = {
    {.name = "name",
     .shapes = {choice(kFrameworks)},
     .fallback = "transformers",
     .doc = "Whose kernels run.",
     .decides = true},
    {.name = "attention",
     .shapes = {choice(kAttentions)},
     .doc = "What computes attention; `default` is the model's own choice, `sdpa` lets PyTorch "
            "choose."},
    {.name = "loss",
     .shapes = {choice(kLosses)},
     .doc = "Cross-entropy: over logits cast to fp32 (upcast) or as they are (plain)."},
    {.name = "loss_parallel",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "torchtitan's loss over shards of the vocabulary, where the head is one of tensor "
            "parallelism."},
    {.name = "norm",
     .shapes = {choice(kNormKernels)},
     .doc = "Normalization operation by operation, or as one kernel."},
    {.name = "activation",
     .shapes = {choice(kActivationKernels)},
     .fallback = "unfused",
     .doc = "The gate's product as an operation of its own, or fused."},
    {.name = "rotary",
     .shapes = {choice(kRotaries)},
     .fallback = "composite",
     .doc = "Rotary positions operation by operation, or as one kernel."},
    {.name = "liger",
     .shapes = {flag(), table(kLigerKeys)},
     .fallback = "false",
     .doc =
         "Liger's kernels (liger-kernel 0.8.5) in a model of transformers: all that it patches by "
         "default, or which."},
    {.name = "layers",
     .shapes = {choice(kLayerSpecs)},
     .fallback = "te",
     .doc = "Megatron's layers: Transformer Engine's, megatron-core's own (local), or those of "
            "Megatron-LM before either (legacy), with the kernels that it fused itself."},
    {.name = "masked_softmax_fusion",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "Of legacy layers: the causal softmax as one kernel, where it takes the sizes."},
    {.name = "bias_gelu_fusion",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "Of legacy layers: bias and gelu as one kernel."},
    {.name = "bias_dropout_fusion",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "Of legacy layers: bias, dropout and residual sum as one kernel."},
    {.name = "deepspeed",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Of legacy layers: DeepSpeed's pipeline engine and ZeRO 1 around them "
            "(Megatron-DeepSpeed), in place of Megatron's own."},
    {.name = "transformer_engine",
     .shapes = {choice(kTeReleases)},
     .fallback = "2.11",
     .doc =
         "Its release, of Megatron's layers: 2.11 stands for 2.10 on, 2.9 for 2.3 to 2.9, 2.2 for "
         "those before. They differ in the unread gradients that products keep."},
    {.name = "torchtitan",
     .shapes = {choice(kTorchtitanReleases)},
     .fallback = "0.2.2",
     .doc =
         "Its own release: 0.2.2 stands for 0.2.0 on; 0.1.0, of 2025, shards embedding, final "
         "norm and output as one unit; 2025-03, from February 2025 on, does not compile the loss "
         "either; 2024-12, before, keeps absolute values of float8 linears in a selective "
         "checkpoint."},
    {.name = "loop",
     .shapes = {choice(kLoops)},
     .fallback = "plain",
     .doc =
         "A plain training loop, nanoGPT's train.py (its model with 'hold_outputs' means it), "
         "the transformers Trainer with accelerate, or TRL's SFTTrainer (sft) or DPOTrainer (dpo, "
         "whose 'micro_batch' counts both answers of a pair), which recompute whole layers "
         "unless 'recompute' says otherwise."},
    {.name = "compile",
     .shapes = {choice(kCompiles)},
     .fallback = "off",
     .doc =
         "What torch.compile compiles: each layer by itself (blocks; torchtitan its loss too), or "
         "the model with its loss (whole)."},
    {.name = "cuda_graph",
     .shapes = {choice(kCudaGraphs), list(kGraphScopeItem)},
     .fallback = "off",
     .doc = "What Megatron captures as CUDA graphs, as its cuda_graph_scope: all forwards and "
            "backwards of a step (full_iteration), or a list of parts of layers (attn, mlp, "
            "moe_router, moe_preprocess, moe)."},
    {.name = "token_dispatcher",
     .shapes = {choice(kTokenDispatchers)},
     .fallback = "alltoall",
     .doc = "What carries tokens to their experts under Megatron: NCCL's all-to-all, or DeepEP's "
            "Hybrid-EP (--moe-token-dispatcher-type flex), which sends a token once to each rank."},
    {.name = "transformers",
     .shapes = {choice(kTransformersReleases)},
     .fallback = "5.18",
     .doc = "Its release: 5.18 stands for 4.54 to 5.18; 5.24, for 5.19 on, multiplies rotary "
            "positions without a matrix product."},
    {.name = "torch",
     .shapes = {choice(kTorches)},
     .fallback = "2.11",
     .doc = "The release of PyTorch: which attention sdpa means, and how long cuBLAS keeps its "
            "workspaces."},
};

bool has_layer_specs(const FrameworkRow& framework) { return framework.has_layer_specs; }
bool is_of_transformers(const FrameworkRow& framework) {
  return framework.recorded.package == "transformers";
}
bool shards_by_dtensor(const FrameworkRow& framework) { return framework.splits.by_dtensor; }

constexpr std::string_view kLegacyLayers = "Megatron's legacy layers";
constexpr OwnKey kOwnKeys[] = {
    {.name = "layers", .belongs_to = has_layer_specs, .owner = "Megatron's layers"},
    {.name = "transformer_engine", .belongs_to = has_layer_specs, .owner = "Megatron's layers"},
    {.name = "cuda_graph", .belongs_to = has_layer_specs, .owner = "Megatron"},
    {.name = "token_dispatcher", .belongs_to = has_layer_specs, .owner = "Megatron"},
    {.name = "torchtitan", .belongs_to = shards_by_dtensor, .owner = "torchtitan"},
    {.name = "transformers", .belongs_to = is_of_transformers, .owner = "transformers"},
    {.name = "masked_softmax_fusion",
     .belongs_to = has_layer_specs,
     .owner = kLegacyLayers,
     .flag = &Implementation::masked_softmax_fusion,
     .layers = LayerSpec::legacy},
    {.name = "bias_gelu_fusion",
     .belongs_to = has_layer_specs,
     .owner = kLegacyLayers,
     .flag = &Implementation::bias_gelu_fusion,
     .layers = LayerSpec::legacy},
    {.name = "bias_dropout_fusion",
     .belongs_to = has_layer_specs,
     .owner = kLegacyLayers,
     .flag = &Implementation::bias_dropout_fusion,
     .layers = LayerSpec::legacy},
    {.name = "deepspeed",
     .belongs_to = has_layer_specs,
     .owner = kLegacyLayers,
     .flag = &Implementation::deepspeed,
     .layers = LayerSpec::legacy},
    {.name = "loss_parallel",
     .belongs_to = shards_by_dtensor,
     .owner = "torchtitan's loss",
     .flag = &Implementation::loss_parallel},
};

}  // namespace

std::span<const Key> implementation_keys() { return kImplementationKeys; }
std::span<const Word> framework_words() { return kFrameworks; }
std::span<const OwnKey> own_keys() { return kOwnKeys; }

}  // namespace memest
