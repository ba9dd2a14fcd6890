// The keys of `training`.
#include "reader/keys/code_storage.hpp"
#include "reader/keys/keys.hpp"
#include "reader/keys/recompute.hpp"

namespace memest {
namespace {

constexpr std::int64_t kMaxSteps = 100;  // every one is replayed

// torch.optim.AdamW(foreach=None, fused=None): _default_to_fused_or_foreach takes foreach on a GPU.
constexpr Word kOptimizerImplementations[] = {{"foreach"}, {"fused"}, {"for-loop"}};
// Transformer Engine's FusedAdam takes fp8 too (torch.uint8), and keeps a transpose beside it where
// products want one.
constexpr Word kMomentTypes[] = {{"fp32"}, {"bf16"}, {"fp16"}, {"fp8", "a moment in fp8"}};
constexpr Word kMainTypes[] = {{"remainders"}, {"fp32"}, {"fp16"}};
constexpr Key kOptimizerKeys[] = {
    {.name = "name",
     .shapes = {catalog("optimizers")},
     .fallback = "adamw",
     .doc = "An optimizer's name; `memest optimizers` lists them."},
    {.name = "implementation",
     .shapes = {choice(kOptimizerImplementations)},
     .doc = "PyTorch's implementation; its own default where left out (the Trainer's AdamW is "
            "fused)."},
    {.name = "in_backward",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "It steps each parameter when its gradient is complete, and lets that go (torchtune's "
            "optimizer_in_bwd)."},
    {.name = "exp_avg",
     .shapes = {choice(kMomentTypes)},
     .doc = "Type of AdamW's first moment in Megatron's precision-aware optimizer, which any of "
            "these three keys asks for; fp32 where left out."},
    {.name = "exp_avg_sq",
     .shapes = {choice(kMomentTypes)},
     .doc = "Type of its second moment; fp32 where left out."},
    {.name = "main_params",
     .shapes = {choice(kMainTypes)},
     .doc = "Its main parameters; where left out `remainders`, the 16 bits that a bf16 parameter "
            "lacks of fp32 (store_param_remainders)."},
};

// torch/autograd/graph.py; trl's and torchtune's OffloadActivations is another mechanism.
constexpr Word kActivationOffloads[] = {
    {"none"}, {"save_on_cpu"}, {"OffloadActivations", "OffloadActivations of trl and torchtune"}};
constexpr Key kPaddingFreeKeys[] = {
    {.name = "documents",
     .shapes = {count()},
     .fallback = "1",
     .doc = "Packed in each sequence of seq_len tokens, all as long."}};
// transformer_engine/pytorch/cpu_offload.py, by Megatron's name of it.
constexpr Word kActivationMethods[] = {
    {"none"},
    {"save_on_cpu"},
    {"cpu_offloading"},
    {"OffloadActivations", "OffloadActivations of trl and torchtune"}};
constexpr Key kActivationOffloadKeys[] = {
    {.name = "method",
     .shapes = {choice(kActivationMethods)},
     .doc = "torch.autograd.graph.save_on_cpu around forward and loss, or Megatron's "
            "cpu_offloading, which is Transformer Engine's.",
     .required = true,
     .usual = "save_on_cpu"},
    {.name = "pin_memory",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Into page-locked memory, where cpu_offloading always copies."},
    {.name = "layers",
     .shapes = {count(1, kMaxLayers)},
     .doc = "Of cpu_offloading: so many of the model's layers, from the first on."},
};

// Optimizer.zero_grad(set_to_none=True) is PyTorch's default.
constexpr Word kZeroGrads[] = {{"set-to-none"}, {"zeros"}};
constexpr Word kTrainingLosses[] = {{"cross-entropy"}, {"sum-of-logits"}};
constexpr Word kDropouts[] = {{"own"}, {"off"}};

constexpr Word kNone[] = {{"none"}};
constexpr Word kAdapterTypes[] = {{"fp32"}, {"model"}};
constexpr Shapes kNames = {text()};
constexpr Key kAdapterDtype = {.name = "dtype",
                               .shapes = {choice(kAdapterTypes)},
                               .fallback = "fp32",
                               .doc = "Type of the adapters; `model` is that of the weights."};
constexpr Key kAdapterTargets = {.name = "targets",
                                 .shapes = {list(kNames)},
                                 .doc = "Modules that get an adapter.",
                                 .required = true,
                                 .usual = "[q_proj, v_proj]"};  // peft's, of Llama
constexpr Key kAdapterDropout = {.name = "dropout",
                                 .shapes = {number(0, 1)},
                                 .fallback = "0.0",
                                 .doc = "Dropout on the adapter's input."};
constexpr Key kWholeModules = {
    .name = "modules_to_save",
    .shapes = {list(kNames)},
    .doc = "Modules trained in full, as copies beside the frozen originals."};
constexpr Key kVeraKeys[] = {
    {.name = "rank",
     .shapes = {count()},
     .doc = "Rank of the two frozen matrices.",
     .required = true,
     .usual = "256"},  // peft's VeraConfig.r
    kAdapterTargets,
    kAdapterDropout,
    kAdapterDtype,
    kWholeModules,
};
constexpr Key kLoraRank = {.name = "rank",
                           .shapes = {count()},
                           .doc = "Rank of the update.",
                           .required = true,
                           .usual = "8"};  // peft's LoraConfig.r
constexpr Key kLoraKeys[] = {
    kLoraRank, kAdapterTargets, kAdapterDropout, kAdapterDtype, kWholeModules,
};
constexpr Key kQloraKeys[] = {
    kLoraRank, kAdapterTargets, kAdapterDropout, kAdapterDtype, kWholeModules, kCodeStorage,
};
constexpr Word kExcludedParts[] = {{"vision_tower"}, {"multi_modal_projector"}};
constexpr Shapes kExcluded = {choice(kExcludedParts)};
constexpr Key kPlainLoraKeys[] = {
    kLoraRank,
    kAdapterTargets,
    kAdapterDropout,
    kAdapterDtype,
    kWholeModules,
    {.name = "exclude",
     .shapes = {list(kExcluded)},
     .doc = "Parts of a model with a vision tower whose modules get none though 'targets' names "
            "them (exclude_modules)."},
};
constexpr Key kIa3Keys[] = {
    kAdapterTargets,
    {.name = "feedforward",
     .shapes = {list(kNames)},
     .fallback = "[down_proj]",  // peft's, of LLaMA, Mistral and Qwen2
     .doc = "Those of the targets whose input is scaled, not their result."},
    kAdapterDtype,
    kWholeModules,
};
constexpr Key kVirtualTokens = {
    .name = "num_virtual_tokens",
    .shapes = {count()},
    .doc = "Trained tokens before every sequence, beside those of 'seq_len'.",
    .required = true,
    .usual = "20"};
constexpr Key kPromptTuningKeys[] = {kVirtualTokens};
constexpr Word kPromptEncoders[] = {{"MLP"}, {"LSTM", "a prompt encoder of LSTM layers"}};
constexpr Key kPromptEncoderKeys[] = {
    kVirtualTokens,
    {.name = "encoder_hidden_size",
     .shapes = {count()},
     .doc = "Channels between the encoder's layers; absent: the model's."},
    {.name = "encoder_reparameterization_type",
     .shapes = {choice(kPromptEncoders)},
     .fallback = "MLP",
     .doc = "The encoder's layers."},
};
constexpr Key kAdapterKeys[] = {
    {.name = "lora", .shapes = {table(kPlainLoraKeys)}, .doc = "Low-rank adapters."},
    {.name = "qlora",
     .shapes = {table(kQloraKeys)},
     .doc = "Low-rank adapters over weights in nf4 with quantised scales."},
    {.name = "dora",
     .shapes = {table(kLoraKeys)},
     .doc = "Low-rank adapters with a trained magnitude."},
    {.name = "ia3", .shapes = {table(kIa3Keys)}, .doc = "Trained scales."},
    {.name = "vera",
     .shapes = {table(kVeraKeys)},
     .doc = "Trained vectors around two frozen matrices that all layers share."},
    {.name = "prompt_tuning",
     .shapes = {table(kPromptTuningKeys)},
     .doc = "Trained embeddings of a prompt before every sequence."},
    {.name = "p_tuning",
     .shapes = {table(kPromptEncoderKeys)},
     .doc = "The same, behind an encoder that is trained with them."},
    {.name = "prefix_tuning",
     .shapes = {table(kPromptTuningKeys)},
     .doc = "Trained keys and values before every layer's own.",
     .later = "prefix tuning"},
};

// torchao/float8/config.py: Float8LinearRecipeName; TENSORWISE is its "Default".
// Megatron's --fp8-recipe: "delayed" is the default, and "tensorwise" is current scaling.
constexpr Word kFloat8Recipes[] = {{"tensorwise"}, {"rowwise"},   {"rowwise_with_gw_hp"},
                                   {"delayed"},    {"blockwise"}, {"mxfp8"},
                                   {"nvfp4"}};
constexpr Key kFloat8Keys[] = {
    {.name = "recipe",
     .shapes = {choice(kFloat8Recipes)},
     .doc = "torchao's: tensorwise (where nothing is written), rowwise, rowwise_with_gw_hp; of "
            "Transformer Engine in Megatron: delayed (likewise), tensorwise, blockwise, mxfp8, "
            "nvfp4."},
    {.name = "all_gather",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "FSDP2 gathers the weights in fp8 (tensorwise)."},
    {.name = "precompute_scales",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The scales of gathered weights are found at once behind the optimizer's step "
            "(precompute_float8_dynamic_scale_for_fsdp).",
     .later = "scales of float8 weights found behind the optimizer's step"},
    {.name = "filter_fqns",
     .shapes = {list(kNames)},
     .doc = "Parts of the names of modules that are left out, or auto_filter_small_kn; the output "
            "head where nothing is written."},
    {.name = "param_gather",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Megatron's weights live in fp8, and are gathered so (--fp8-param-gather)."},
    {.name = "first_layers_bf16",
     .shapes = {count(0, kMaxCount)},
     .fallback = "0",
     .doc = "Layers at the start of Megatron's model whose products stay in bf16."},
    {.name = "last_layers_bf16",
     .shapes = {count(0, kMaxCount)},
     .fallback = "0",
     .doc = "And at its end."},
};

constexpr Word kTeacherTypes[] = {{"bf16"}, {"fp16"}, {"fp32"}};
std::span<const Key> teacher_keys() {
  static const Key kKeys[] = {
      {.name = "model",
       .shapes = {catalog("models"), table(decoder_keys()), table(hf_keys())},
       .doc = "The model that is learned from: a preset's name, a config, or a family's sizes.",
       .required = true,
       .usual = "llama-3-8b"},
      {.name = "dtype",
       .shapes = {choice(kTeacherTypes)},
       .fallback = "bf16",
       .doc = "Type of its weights."},
  };
  return kKeys;
}

constexpr Word kVisionParts[] = {{"vision_tower"}, {"multi_modal_projector"}, {"language_model"}};
constexpr Shapes kFrozenParts = {choice(kVisionParts)};
constexpr Shapes kPixels = {count()};

const Key kTrainingKeys[] = {
    {.name = "seq_len",
     .shapes = {count()},
     .doc = "Tokens of a sequence; rows of a sample for a list of layers.",
     .required = true},
    {.name = "micro_batch",
     .shapes = {count()},
     .fallback = "1",
     .doc = "Sequences a GPU and micro-step; of pairs (loop dpo) both answers, and 2 by default."},
    {.name = "global_batch",
     .shapes = {count()},
     .doc = "Sequences a step over all GPUs; gradient accumulation follows."},
    {.name = "gradient_accumulation",
     .shapes = {count()},
     .fallback = "1",
     .doc = "Micro-steps a step; instead of global_batch."},
    {.name = "precision",
     .shapes = {catalog("recipes")},
     .fallback = "amp-bf16",
     .doc = "A precision recipe's name; `memest recipes` lists them."},
    {.name = "optimizer",
     .shapes = {catalog("optimizers"), table(kOptimizerKeys)},
     .fallback = "adamw",
     .doc = "An optimizer, with PyTorch's default arguments; `memest optimizers` lists them."},
    {.name = "recompute",
     .shapes = {choice(kRecomputes), one_of(kRecomputeKeys)},
     .fallback = "none",
     .doc = "What is computed again in the backward pass instead of kept."},
    {.name = "offload_activations",
     .shapes = {choice(kActivationOffloads), table(kActivationOffloadKeys)},
     .fallback = "none",
     .doc = "Saved tensors that wait in the host's memory for the backward pass."},
    {.name = "implementation",
     .shapes = {choice(framework_words()), table(implementation_keys())},
     .fallback = "transformers",
     .doc = "Whose kernels run, and so what they keep for the backward pass."},
    {.name = "clip_gradients",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Gradients are clipped to norm 1.0 before the step; the Trainer takes their norm "
            "anyway."},
    {.name = "zero_grad",
     .shapes = {choice(kZeroGrads)},
     .fallback = "set-to-none",
     .doc = "Gradients are freed after a step, or set to zero."},
    {.name = "hold_outputs",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The logits stay alive until the next forward, as in nanoGPT's train.py."},
    {.name = "ema",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "A moving average of the weights on the GPU, moved behind every step: "
            "torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn()."},
    {.name = "use_cache",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The model fills its key-value cache during training."},
    {.name = "target_len",
     .shapes = {count()},
     .doc = "Target length of an encoder-decoder.",
     .later = "the target length of an encoder-decoder"},
    {.name = "completion_len",
     .shapes = {count()},
     .doc = "Targets of a sequence under TRL's trainers; all tokens but the first if left out."},
    {.name = "padding_free",
     .shapes = {flag(), table(kPaddingFreeKeys)},
     .fallback = "false",
     .doc = "The sequences of a micro-batch lie as one, which attention tells apart by their "
            "lengths: TRL's padding_free, and its packing unless packing_strategy is wrapped."},
    {.name = "loss",
     .shapes = {choice(kTrainingLosses)},
     .fallback = "cross-entropy",
     .doc = "What the backward pass starts from."},
    {.name = "dropout",
     .shapes = {choice(kDropouts)},
     .fallback = "own",
     .doc = "The model's own probabilities, or none."},
    {.name = "steps",
     .shapes = {count(1, kMaxSteps)},
     .fallback = "2",
     .doc = "How many steps are looked at; the peak of the second is that of all later ones."},
    {.name = "float8",
     .shapes = {table(kFloat8Keys)},
     .doc = "Linear layers as torchao's float8 training has them (torchao 0.16), or products of "
            "Transformer Engine's layers in Megatron."},
    {.name = "adapter",
     .shapes = {choice(kNone), one_of(kAdapterKeys)},
     .fallback = "none",
     .doc = "Trains an adapter instead of the model."},
    {.name = "images",
     .shapes = {count()},
     .doc = "Images of each sequence of a model with a vision tower; their tokens count in "
            "seq_len."},
    {.name = "image_size",
     .shapes = {list(kPixels)},
     .doc = "Height and width of the images, in pixels, of a model that takes them of any size, as "
            "its processor resizes them."},
    {.name = "freeze",
     .shapes = {list(kFrozenParts)},
     .doc = "Parts of a model with a vision tower that are not trained (requires_grad_(False))."},
    {.name = "teacher",
     .shapes = {table(teacher_keys())},
     .doc = "Distillation: a frozen model whose logits stand in the loss beside the labels."},
    {.name = "data",
     .shapes = {table(data_keys())},
     .doc = "PyTorch's DataLoader, one in every rank; a step waits for it."},
};

}  // namespace

std::span<const Key> training_keys() { return kTrainingKeys; }

}  // namespace memest
