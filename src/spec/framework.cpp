#include "memest/spec/framework.hpp"

#include <algorithm>
#include <array>

#include "memest/diag/expect.hpp"
#include "spec/change_word_rows.hpp"

namespace memest {
namespace {

constexpr std::array kFrameworks = {
    Framework::transformers, Framework::torchtitan, Framework::torchtune,
    Framework::litgpt,       Framework::megatron,   Framework::nanotron,
    Framework::nanogpt,      Framework::textbook,   Framework::plain};

// Plain PyTorch has no optimizer with fp32 masters beside 16-bit weights, as Megatron's
// Float16OptimizerWithFloat16Params is; "mixed" is that recipe written by hand.
constexpr std::array kPrecisionsOfTransformers = {
    PrecisionName{"megatron", "mixed-fp32-grad"},
    PrecisionName{"megatron-bf16-grad", "mixed"},
};
// torchtitan keeps fp32 weights and casts them unit by unit (training.mixed_precision_param).
constexpr std::array kPrecisionsOfTorchtitan = {
    PrecisionName{"mixed", "amp-bf16"},
    PrecisionName{"mixed-fp32-grad", "amp-bf16"},
    PrecisionName{"megatron", "amp-bf16"},
    PrecisionName{"megatron-bf16-grad", "amp-bf16"},
};
// A recipe's dtype is that of weights, gradients and states alike.
constexpr std::array kPrecisionsOfTorchtune = {
    PrecisionName{"mixed", "bf16"},    PrecisionName{"mixed-fp32-grad", "bf16"},
    PrecisionName{"megatron", "bf16"}, PrecisionName{"megatron-bf16-grad", "bf16"},
    PrecisionName{"amp-bf16", "bf16"}, PrecisionName{"fsdp2-bf16", "bf16"},
};
// bf16-true; bf16-mixed is amp-bf16.
constexpr std::array kPrecisionsOfLitgpt = {
    PrecisionName{"mixed", "bf16"},      PrecisionName{"mixed-fp32-grad", "bf16"},
    PrecisionName{"megatron", "bf16"},   PrecisionName{"megatron-bf16-grad", "bf16"},
    PrecisionName{"fsdp2-bf16", "bf16"},
};
// --bf16 --grad-reduce-in-bf16, and with gradients in fp32 by default.
constexpr std::array kPrecisionsOfMegatron = {
    PrecisionName{"mixed", "megatron-bf16-grad"},
    PrecisionName{"mixed-fp32-grad", "megatron"},
    PrecisionName{"amp-bf16", "megatron"},
    PrecisionName{"fsdp2-bf16", "megatron"},
};

// model.dtype bfloat16 with optimizer.accumulate_grad_in_fp32 is the only pair that is followed.
constexpr std::array kPrecisionsOfNanotron = {
    PrecisionName{"mixed", "mixed-fp32-grad"},
    PrecisionName{"megatron", "mixed-fp32-grad"},
    PrecisionName{"megatron-bf16-grad", "mixed-fp32-grad"},
    PrecisionName{"amp-bf16", "mixed-fp32-grad"},
    PrecisionName{"fsdp2-bf16", "mixed-fp32-grad"},
};

constexpr FrameworkRow kTransformers = {
    .name = "transformers",
    .recorded = {"transformers", "5.17"},
    // PreTrainedModel's default attention is sdpa, its loss upcasts (loss_utils.py,
    // ForCausalLMLoss: logits.float()), and its norms are op by op (LlamaRMSNorm).
    .asks = "Hugging Face's model in a training loop, sharded by DeepSpeed or FSDP2",
    .own = {Framework::transformers, AttentionKernel::sdpa, LossKernel::upcast,
            NormKernel::composite},
    .compiles_blocks = true,
    .compiles_whole = true,
    .takes_liger = true,
    // torchao's convert_to_float8_training leaves out what module_filter_fn says: the output head,
    // by each framework's name for it.
    .float8_filter = "lm_head",
    .saves_on_cpu = true,
    .is_compared = true,
    .precisions = kPrecisionsOfTransformers,
    .sharer = Sharer::deepspeed,
    .fsdp1 = true,
    .fsdp2 = true,
    .ddp = true,
    .change_words = &kWordsOfTransformers,
};

// 0.2.2: torchtitan/models/llama3/infra/{parallelize,pipeline}.py, distributed/pipeline_parallel.py
// (an end of the model counts as a layer), distributed/activation_checkpoint.py, train.py. DDP
// knows one dimension of ranks.
constexpr FrameworkRow kTorchtitan = {
    .name = "torchtitan",
    .recorded = {"torchtitan", "0.2.2"},
    .asks = "torchtitan's model, loop and TOML file; weights converted to DCP",
    .model_type = "torchtitan",
    .own = {Framework::torchtitan, AttentionKernel::sdpa, LossKernel::upcast, NormKernel::fused,
            LoopKind::torchtitan},
    .compiles_blocks = true,
    .float8_filter = "output",
    .is_compared = true,
    .torch_precisions_alone = true,
    .precisions = kPrecisionsOfTorchtitan,
    .splits = {.tensor = true,
               .context = true,
               .pipeline = true,
               .deals = true,
               .expert = true,
               .by_dtensor = true},
    .schedules = PipelineSchedules::all,
    // pipeline_parallel.py: stages_per_rank = 1 if is_single_stage_schedule else 2.
    .stages_of_rank = 2,
    // generate_llm_fqn_per_model_part(input_weight=1, output_weight=1): 32 layers over 4 stages are
    // 34, dealt 9, 9, 8, 8, so 8, 9, 8, 7 layers.
    .end_layers = 1,
    .fsdp2 = true,
    // apply_fsdp: fully_shard(tok_embeddings), each block, [norm, output] as one unit, and the
    // root.
    .units = {.ends_apart = true,
              .loss_in_model = false,
              .gathers_tied_twice = true,
              .experts_apart = true},
    // fsdp_reshard_after_forward "default": not for [norm, output], which the backward would gather
    // at once, and for nothing under pipeline parallelism.
    .reshard = Reshard::all_but_last,
    // train.py makes the model under torch.device("meta"), then to_empty behind parallelize.
    .only_init = ShardInit::meta,
    .ddp = true,
    // job_config.py, ActivationCheckpoint.early_stop is False, unlike torch.utils.checkpoint's
    // default.
    .checkpoints = CheckpointRule::layers,
    .change_words = &kWordsOfTorchtitan,
};

// 0.6.1: torchtune/modules, training/_distributed.py (shard_model: a unit a layer, and the rest),
// recipes/{full,lora}_finetune_{single_device,distributed}.py.
constexpr FrameworkRow kTorchtune = {
    .name = "torchtune",
    .recorded = {"torchtune", "0.6.1"},
    .asks = "torchtune's model, recipe and YAML file; weights in its format",
    .model_type = "torchtune",
    // CEWithChunkedOutputLoss is what its files name.
    .own = {Framework::torchtune, AttentionKernel::sdpa, LossKernel::chunked, NormKernel::composite,
            LoopKind::torchtune},
    .torch_precisions_alone = true,
    .precision = "bf16",
    .precisions = kPrecisionsOfTorchtune,
    .fsdp2 = true,
    .units = {.root_reshards = true, .adapters_first = true},
    // _setup_model of the distributed recipes: torch.device("meta").
    .only_init = ShardInit::meta,
    .recomputes_parts = false,
    .embeddings_want_gradient = false,
    .adapters_in_type = true,
    // modules/peft/lora.py: to_nf4 where quantize_base.
    .codes = WeightFormat::torchao_nf4,
};

// 0.5.13: litgpt/{model,lora}.py, finetune/{full,lora}.py.
constexpr FrameworkRow kLitgpt = {
    .name = "litgpt",
    .recorded = {"litgpt", "0.5.13"},
    .asks = "litgpt's model, its finetune and its YAML file; weights in its format",
    .model_type = "litgpt",
    // chunked_cross_entropy, behind an output head that LoRA's program calls in chunks too.
    .own = {Framework::litgpt, AttentionKernel::sdpa, LossKernel::chunked, NormKernel::composite,
            LoopKind::litgpt},
    .torch_precisions_alone = true,
    .precision = "bf16",
    .precisions = kPrecisionsOfLitgpt,
    .fsdp1 = true,
    .fsdp2 = true,
    .fsdp1_without_adapter = true,
    .sharded_precision = "bf16",
    .recomputes_parts = false,
    .recomputes_over_ranks = true,
    .embeddings_want_gradient = false,
    .adapters_in_type = true,
    .joins_projections = true,
    .quantizes_all = true,
    .unties_embeddings = true,
};

constexpr FrameworkRow kMegatron = {
    .name = "megatron",
    .recorded = {"megatron-core", "0.16.1"},
    .asks =
        "Megatron-core with Transformer Engine, its arguments and data format; weights "
        "converted",
    .own = {Framework::megatron, AttentionKernel::te, LossKernel::vocab_parallel,
            NormKernel::fused},
    // get_gpt_layer_local_spec or get_gpt_layer_with_transformer_engine_spec (--transformer-impl).
    .has_layer_specs = true,
    .is_compared = true,
    .precision = "megatron",
    .precisions = kPrecisionsOfMegatron,
    .splits = {.tensor = true,
               .context = true,
               // DotProductAttention.__init__ asserts context_parallel_size == 1.
               .context_in_te_alone = true,
               .pipeline = true,
               // LanguageModule.setup_embeddings_and_output_layer: the last stage has a copy of the
               // tied weight.
               .ties_over_stages = true,
               // num_layers_in_first_pipeline_stage and num_layers_in_last_pipeline_stage.
               .own_ends = true,
               .expert = true},
    .schedules = PipelineSchedules::interleaved,
    .overlaps = true,
    .sharer = Sharer::megatron,
    .replicates_divided_models = true,
    // distributed/param_and_grad_buffer.py: one buffer of main gradients, allocated before the
    // first step and zeroed, never freed.
    .gradient_buffer = true,
    .checkpoints = CheckpointRule::megatron,
    .fills_steps = true,
    // schedules.py, forward_backward_pipelining_with_interleaving: with overlap_p2p_comm, which its
    // arguments turn on and Megatron-Bridge's comm_overlap.py too, it posts them and waits right
    // before the next chunk that needs one. Its 1F1B waits for each, as PyTorch's schedules do.
    .sends_beside_work = true,
    .change_words = &kWordsOfMegatron,
};

// The repository at the time of the Ultra-Scale Playbook's runs (models/llama.py, trainer.py,
// helpers.py, optim/gradient_accumulator.py): bf16 weights with an optimizer of fp32 copies.
constexpr FrameworkRow kNanotron = {
    .name = "nanotron",
    .recorded = {"nanotron", "0.4"},
    .asks = "nanotron's model, loop and YAML file; weights converted",
    .own = {Framework::nanotron, AttentionKernel::flash_2, LossKernel::vocab_parallel,
            NormKernel::fused},
    .torch_precisions_alone = true,
    .fused_adamw = true,
    .precision = "mixed-fp32-grad",
    .precisions = kPrecisionsOfNanotron,
    .splits = {.tensor = true, .pipeline = true, .ties_over_stages = true, .deals_by_cost = true},
    // AllForwardAllBackwardPipelineEngine and OneForwardOneBackwardPipelineEngine.
    .schedules = PipelineSchedules::gpipe,
    .sharer = Sharer::nanotron,
    .replicates_divided_models = true,
    // FP32GradientAccumulator: _contiguous_fp32_grad_buffer, made before the first step; backward()
    // adds all gradients to it behind loss.backward().
    .gradient_buffer = true,
    .adds_behind_backward = true,
    // LlamaDecoderLayer._checkpointed_forward: CheckpointFunction.apply.
    .checkpoints = CheckpointRule::reentrant,
};

constexpr FrameworkRow kNanoGpt = {
    .name = "nanogpt",
    .recorded = {"nanoGPT", "3adf61e"},
    .asks = "nanoGPT's model and train.py",
    .model_type = "nanogpt by hand",
    .own = {Framework::nanogpt, AttentionKernel::sdpa, LossKernel::plain, NormKernel::fused},
    .own_program = LoopKind::nanogpt,
    .compiles_blocks = true,
    .compiles_whole = true,
    .torch_precisions_alone = true,
    .sharer = Sharer::deepspeed,
    .ddp = true,
    .change_words = &kWordsOfNanoGpt,
};

constexpr FrameworkRow kTextbook = {
    .name = "textbook",
    .asks = "no program: the field's formulas",
    .own = {Framework::textbook, AttentionKernel::textbook, LossKernel::upcast, NormKernel::fused},
    .sharer = Sharer::zero_stages,
    .checkpoints = CheckpointRule::formula,
    .is_formula = true,
};

constexpr FrameworkRow kPlain = {
    .name = "plain",
    .asks = "a loop in PyTorch",
    .own = {Framework::plain, AttentionKernel::sdpa, LossKernel::plain, NormKernel::fused},
    .trains_layer_lists = true,
    .saves_on_cpu = true,
    .sharer = Sharer::deepspeed,
    .ddp = true,
    // torch.utils.checkpoint, create_selective_checkpoint_contexts, around each block of the list.
    .keeps_contractions = true,
    .change_words = &kWordsOfPlain,
};

}  // namespace

const FrameworkRow& row_of(Framework framework) {
  switch (framework) {
    case Framework::transformers:
      return kTransformers;
    case Framework::torchtitan:
      return kTorchtitan;
    case Framework::torchtune:
      return kTorchtune;
    case Framework::litgpt:
      return kLitgpt;
    case Framework::megatron:
      return kMegatron;
    case Framework::nanotron:
      return kNanotron;
    case Framework::nanogpt:
      return kNanoGpt;
    case Framework::textbook:
      return kTextbook;
    case Framework::plain:
      return kPlain;
  }
  unreachable("every framework has a row");
}

const RecordedProgram& modelled_program(const Implementation& implementation) {
  static constexpr RecordedProgram kLegacy{"Megatron-LM", "3.0"};
  static constexpr RecordedProgram kAroundLegacy{"deepspeed", "0.6.7"};
  static constexpr RecordedProgram kElementwiseRotary{"transformers", "5.24"};
  if (implementation.deepspeed) return kAroundLegacy;
  if (implementation.layers == LayerSpec::legacy) return kLegacy;
  if (implementation.transformers == TransformersRelease::v5_24) return kElementwiseRotary;
  return row_of(implementation.framework).recorded;
}

std::span<const Framework> frameworks() { return kFrameworks; }

std::optional<Framework> framework_named(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kFrameworks, [name](Framework framework) { return row_of(framework).name == name; });
  return found == kFrameworks.end() ? std::nullopt : std::optional(*found);
}

Framework default_framework(bool layer_list) {
  return *std::ranges::find_if(kFrameworks, [layer_list](Framework framework) {
    return row_of(framework).trains_layer_lists == layer_list;
  });
}

bool divides_sequences(const Implementation& implementation) {
  const ModelSplits& splits = row_of(implementation.framework).splits;
  return splits.context && (!splits.context_in_te_alone || implementation.layers == LayerSpec::te);
}

std::string_view name_of(Framework framework) { return row_of(framework).name; }

}  // namespace memest
