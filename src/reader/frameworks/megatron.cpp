#include "reader/frameworks/megatron.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "memest/spec/framework.hpp"
#include "reader/frameworks/megatron_stages.hpp"
#include "reader/frameworks/rules.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

const TrainingSpec& training_of(const Job& job) { return *job.training; }

bool is_te(const Job& job) { return training_of(job).implementation.layers == LayerSpec::te; }
bool is_legacy(const Job& job) {
  return training_of(job).implementation.layers == LayerSpec::legacy;
}

bool is_deepspeed(const Job& job) { return training_of(job).implementation.deepspeed; }

std::int64_t kv_heads_of(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  const auto* attention =
      decoder == nullptr ? nullptr : std::get_if<SoftmaxAttention>(&decoder->attention);
  return attention == nullptr ? 0 : attention->kv_heads;
}

const FullRecompute* full_of(const Job& job) {
  return std::get_if<FullRecompute>(&training_of(job).recompute);
}

bool trains_another_way(const Job& job) {
  if (training_of(job).recipe.te_recipe) return false;
  const std::string& name = training_of(job).recipe.name;
  return name != "megatron" && name != "megatron-bf16-grad" && name != "megatron-fp16" &&
         name != "fp32";
}

/// Anything but AdamW by `implementation`.
bool steps_without(const Job& job, OptimizerImplementation implementation) {
  return training_of(job).optimizer.rule != OptimizerRule::adamw ||
         training_of(job).optimizer_implementation != implementation;
}

/// Megatron's precision-aware optimizer: types of its own for what the optimizer keeps.
bool is_precision_aware(const Job& job) { return training_of(job).optimizer.typed; }

bool keeps_in(DType type, const Job& job) {
  const auto& states = training_of(job).optimizer.states;
  return is_precision_aware(job) &&
         std::ranges::any_of(states, [type](const auto& state) { return state.dtype == type; });
}

bool leaves_chunks_over(const Job& job) {
  const FullRecompute* full = full_of(job);
  if (full == nullptr || full->method != RecomputeMethod::uniform) return false;
  if (leaves_layers_over(job) || leaves_uneven_middle(job)) return false;
  const StageSplit split = job.stage_split(decoder_layers_of(job));
  // TransformerBlock._checkpointed_forward steps by recompute_num_layers and has no shorter last
  // chunk: custom(layer_idx, layer_idx + recompute_num_layers) runs past the stage's end.
  for (std::int64_t stage = 0; stage < split.stages(); ++stage) {
    if (split.stage(stage).count % full->layers != 0) return true;
  }
  return false;
}

/// Jobs that Megatron-core 0.16 (or memest with it) refuses.
constexpr std::array kRules = {
    // The local spec's core_attention is DotProductAttention (baddbmm, FusedScaleMaskSoftmax, bmm).
    Rule{"training", "implementation",
         [](const Job& job) {
           return !is_te(job) &&
                  (training_of(job).implementation.attention != AttentionKernel::unfused ||
                   training_of(job).implementation.loss != LossKernel::vocab_parallel);
         },
         "Megatron's local layers have their own attention and loss",
         "leave 'attention' and 'loss' out, or set them to unfused and vocab-parallel"},
    Rule{
        "training", "implementation",
        [](const Job& job) {
          const Implementation& implementation = training_of(job).implementation;
          const bool attends = implementation.attention == AttentionKernel::te ||
                               implementation.attention == AttentionKernel::flash_2;
          const bool judges = implementation.loss == LossKernel::vocab_parallel ||
                              implementation.loss == LossKernel::te;
          return is_te(job) && !(attends && judges);
        },
        "layers of Transformer Engine run its attention or flash-attn's, and its loss or "
        "Megatron's",
        "leave 'attention' and 'loss' out, or set them to te or flash-2, and vocab-parallel or te"},
    Rule{"training", "precision",
         [](const Job& job) { return is_te(job) && training_of(job).recipe.name == "fp32"; },
         "Transformer Engine's fused attention takes 16-bit types",
         "use megatron or megatron-bf16-grad, or {name: megatron, layers: local}"},
    Rule{"training", "precision", trains_another_way,
         "Megatron keeps its own main weights and gradient buffers",
         "use megatron, megatron-bf16-grad, megatron-fp16 or fp32"},
    // BF16_Optimizer sums in fp32; DeepSpeedZeroOptimizer in stage 1 takes fp16.
    Rule{"training", "precision",
         [](const Job& job) {
           const std::string& name = training_of(job).recipe.name;
           return is_deepspeed(job) && name != "megatron" && name != "megatron-fp16";
         },
         "DeepSpeed around Megatron's layers trains in bf16 with sums in fp32, or in fp16",
         "use megatron or megatron-fp16"},
    Rule{
        "parallelism", "zero",
        [](const Job& job) {
          return is_deepspeed(job) && job.parallelism.zero != ZeroStage::optimizer;
        },
        "DeepSpeed around Megatron's layers is followed in ZeRO 1 alone, which is BF16_Optimizer's "
        "own share too",
        "write 'zero: 1'"},
    Rule{"parallelism", "distributed_optimizer",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           return is_deepspeed(job) &&
                  (p.distributed_optimizer || p.overlap_grad_reduce || p.overlap_param_gather);
         },
         "DeepSpeed's optimizer stands in the place of Megatron's",
         "leave 'distributed_optimizer', 'overlap_grad_reduce' and 'overlap_param_gather' out"},
    Rule{"parallelism", "schedule",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           return is_deepspeed(job) && (p.virtual_stages > 1 || p.sequence);
         },
         "DeepSpeed's pipeline engine runs 1F1B over one stage a rank, without shards of the "
         "sequence",
         "leave 'schedule', 'virtual_stages' and 'sequence' out"},
    Rule{"training", "optimizer",
         [](const Job& job) {
           // megatron/core/optimizer/__init__.py imports transformer_engine's FusedAdam, else
           // Apex's, else torch.optim.AdamW under the name Adam.
           return !is_te(job) && !is_legacy(job) &&
                  steps_without(job, OptimizerImplementation::foreach_);
         },
         "Megatron without Apex steps with PyTorch's foreach AdamW",
         "leave 'optimizer' out, or set it to adamw"},
    Rule{"training", "optimizer",
         [](const Job& job) {
           return is_te(job) && steps_without(job, OptimizerImplementation::fused);
         },
         "Megatron with Transformer Engine steps with its fused AdamW",
         "leave 'optimizer' out, or set it to adamw"},
    // megatron/optimizer/__init__.py of v2 and v3.0: from apex.optimizers import FusedAdam as Adam.
    Rule{"training", "optimizer",
         [](const Job& job) {
           return is_legacy(job) && steps_without(job, OptimizerImplementation::fused);
         },
         "Megatron's legacy layers come with Apex's fused AdamW",
         "leave 'optimizer' out, or set it to adamw"},
    // optimizer_config.py, __post_init__: "requires FusedAdam from TransformerEngine".
    Rule{"training", "optimizer",
         [](const Job& job) { return is_precision_aware(job) && !is_te(job); },
         "types of its own for what the optimizer keeps are those of Transformer Engine's "
         "FusedAdam, which Megatron's local layers are without",
         "leave 'exp_avg', 'exp_avg_sq' and 'main_params' out, or 'layers: local'"},
    // "--use-precision-aware-optimizer only supported with distributed optimizer".
    Rule{"training", "optimizer",
         [](const Job& job) {
           return is_precision_aware(job) && !job.parallelism.distributed_optimizer;
         },
         "Megatron's distributed optimizer alone keeps what it has in types of its own",
         "write 'distributed_optimizer: true' in 'parallelism'"},
    // fused_adam.py of 2.2: "FusedAdam only supports fp32/fp16/fp8 exp_avg".
    Rule{"training", "optimizer",
         [](const Job& job) {
           return training_of(job).implementation.transformer_engine == TeRelease::te_2_2 &&
                  keeps_in(DType::bf16, job);
         },
         "Transformer Engine 2.2 keeps no moments in bf16",
         "write fp16, or 'transformer_engine: 2.9'"},
    Rule{"training", "recompute",
         [](const Job& job) {
           const Recompute& recompute = training_of(job).recompute;
           return std::holds_alternative<EveryRecompute>(recompute) ||
                  std::holds_alternative<SqrtRecompute>(recompute);
         },
         "Megatron recomputes parts of layers, or layers by its methods",
         "use full, selective, {full: {method: ...}} or {selective: [...]}"},
    Rule{"training", "recompute", leaves_chunks_over,
         "a stage's layers are not a multiple of those that share a checkpoint",
         "Megatron's method uniform wants all chunks alike; use another 'layers'"},
    Rule{"training", "recompute",
         [](const Job& job) {
           const FullRecompute* full = full_of(job);
           // transformer_config.py: distribute_saved_activations "must be false when sequence
           // parallel is enabled".
           return full != nullptr && full->distribute && job.parallelism.sequence;
         },
         "inputs that lie on shards of the sequence are distributed already",
         "leave 'distribute' or 'sequence' out"},
    Rule{
        "parallelism", "expert",
        // transformer_config.py: "num_moe_experts must be non None to use expert-parallel".
        [](const Job& job) { return job.parallelism.expert > 1 && job.model.experts() == nullptr; },
        "expert parallelism shares experts, and the model has none",
        "leave 'expert' out, or give the model a 'moe'"},
    Rule{"parallelism", "expert",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           // parallel_state.py: initialize_model_parallel: the world must divide by expert_tensor ·
           // expert · pipeline.
           return !p.whole_experts() && p.expert_ranks() % p.expert != 0;
         },
         "the expert-parallel ranks lie within the data-parallel ones",
         "choose a divisor of 'data' x 'context'"},
    Rule{"parallelism", "expert",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           return p.whole_experts() && p.expert_ranks() % p.expert != 0;
         },
         "the ranks of whole experts lie within the tensor- and data-parallel ones",
         "choose a divisor of 'tensor' x 'data' x 'context'"},
    Rule{"parallelism", "expert_tensor",
         [](const Job& job) {
           return job.parallelism.expert_tensor && job.model.experts() == nullptr;
         },
         "the model has no experts to cut", "leave 'expert_tensor' out"},
    Rule{"parallelism", "tensor",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           const MixtureOfExperts* experts = job.model.experts();
           return experts != nullptr && !p.whole_experts() && experts->expert_size % p.tensor != 0;
         },
         "the size of an expert is not a multiple of the tensor-parallel ranks that it is cut over",
         "choose another 'tensor', or write 'expert_tensor: 1', which leaves every expert whole"},
    Rule{"parallelism", "tensor",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           // MoELayer.forward raises where it trains over tensor ranks without sequence
           // parallelism.
           return job.model.experts() != nullptr && p.tensor > 1 && !p.sequence;
         },
         "Megatron trains mixtures of experts over tensor-parallel ranks with shards of the "
         "sequence alone",
         "write 'sequence: true'"},
    Rule{"parallelism", "expert_tensor",
         [](const Job& job) {
           return job.parallelism.whole_experts() && job.parallelism.expert == 1;
         },
         "whole experts on every tensor-parallel rank are not available yet",
         "write 'expert' of more than one rank, or leave 'expert_tensor' out"},
    Rule{"parallelism", "expert_tensor",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           return p.expert_tensor && *p.expert_tensor != 1 && *p.expert_tensor != p.tensor;
         },
         "an expert is whole, or cut over as many ranks as all else", "write 1, or leave it out"},
    Rule{"parallelism", "expert",
         [](const Job& job) {
           const MixtureOfExperts* experts = job.model.experts();
           // BaseMoELayer.__init__: assert num_moe_experts % ep_size == 0.
           return experts != nullptr && experts->experts % job.parallelism.expert != 0;
         },
         "the experts are not a multiple of the expert-parallel ranks",
         "every rank has as many experts"},
    Rule{"model", "moe",
         [](const Job& job) {
           const MixtureOfExperts* experts = job.model.experts();
           // moe_utils.py: apply_router_token_dropping: a capacity of ceil(tokens · top_k / experts
           // · factor) above the rank's tokens is no capacity, its mask is all ones.
           return experts != nullptr &&
                  experts->capacity_factor * static_cast<double>(experts->top_k) >
                      static_cast<double>(experts->experts);
         },
         "Megatron pads no expert beyond all tokens of a rank",
         "'capacity_factor' is at most 'experts' / 'top_k'"},
    Rule{"parallelism", "sequence",
         [](const Job& job) { return job.parallelism.sequence && job.parallelism.tensor == 1; },
         "sequence parallelism is over the tensor-parallel ranks, and there is one",
         "set 'tensor', or leave 'sequence' out"},
    Rule{"parallelism", "context",
         [](const Job& job) {
           const std::int64_t ranks = job.parallelism.context;
           // get_batch_on_this_cp_rank views the sequence as 2 · cp chunks and gives rank r chunks
           // r and 2 · cp − r − 1, which balances a causal mask. 4 ranks: rank 0 has 0 and 7.
           return ranks > 1 && training_of(job).seq_len % (2 * ranks) != 0;
         },
         "a causal sequence is cut into two parts for every context-parallel rank",
         "choose a 'seq_len' that is a multiple of twice the 'context' ranks"},
    Rule{"parallelism", "overlap_param_gather",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           // Megatron's arguments.py asserts both: the gathered buckets are those that the
           // distributed optimizer scattered.
           return p.overlap_param_gather && p.zero != ZeroStage::optimizer_gradients_weights &&
                  !(p.overlap_grad_reduce && p.distributed_optimizer);
         },
         "Megatron gathers weights beside the forward only as its distributed optimizer reduces "
         "gradients beside the backward",
         "set 'distributed_optimizer' and 'overlap_grad_reduce' too"},
    Rule{"parallelism", "context_exchange",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           // cp_comm_type "a2a" (Ulysses): the all-to-all gives each rank whole heads.
           return p.context > 1 && p.context_exchange == ContextExchange::all_to_all &&
                  kv_heads_of(job) % (p.tensor * p.context) != 0;
         },
         "every rank of 'tensor' x 'context' takes as many key-value heads",
         "use fewer ranks, or 'ring'"},
};

/// torch.utils.checkpoint around the first layers alone: a layer of transformers asks its own flag
/// (modeling_layers.py, GradientCheckpointingLayer.__call__: self.gradient_checkpointing).
bool recomputes_first_layers(const Job& job) {
  const FullRecompute* full = full_of(job);
  const CheckpointRule rule = row_of(training_of(job).implementation.framework).checkpoints;
  return rule == CheckpointRule::torch && full->method == RecomputeMethod::block &&
         !full->reentrant && !full->distribute;
}

/// Whether a job of another framework sets a part of `recompute` that only Megatron has.
bool asks_for_megatrons_recompute(const Job& job) {
  if (const FullRecompute* full = full_of(job)) {
    if (recomputes_first_layers(job)) return false;
    return full->method != RecomputeMethod::uniform || full->layers != 1 || full->distribute;
  }
  const auto* parts = std::get_if<SelectiveRecompute>(&training_of(job).recompute);
  return parts != nullptr && parts->beyond_attention();
}

/// The losses over shards of the vocabulary are Megatron's.
void check_loss_elsewhere(const Value& root, const Job& job, Diagnostics& diagnostics) {
  const Implementation& implementation = training_of(job).implementation;
  if (implementation.loss != LossKernel::te) return;
  diagnostics.push_back(unavailable_at(root.find("training")->find("implementation")->span,
                                       "the loss " + quote(name_of(implementation.loss)) +
                                           " in the implementation " +
                                           quote(name_of(implementation.framework)),
                                       "it is that of the implementation megatron"));
}

/// So are types of its own for what an optimizer keeps.
void check_states_elsewhere(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!is_precision_aware(job)) return;
  diagnostics.push_back(error_at(
      root.find("training")->find("optimizer")->span,
      "types of its own for what the optimizer keeps are those of Megatron's precision-aware "
      "optimizer, which " +
          quote(name_of(training_of(job).implementation.framework)) + " does not have",
      "leave 'exp_avg', 'exp_avg_sq' and 'main_params' out, or set 'implementation' to megatron"));
}

}  // namespace

void check_megatron(const Value& root, const Job& job, Diagnostics& diagnostics) {
  check_predictions(root, job, diagnostics);
  if (!job.training) return;
  if (training_of(job).implementation.framework != Framework::megatron) {
    check_loss_elsewhere(root, job, diagnostics);
    check_states_elsewhere(root, job, diagnostics);
    if (!asks_for_megatrons_recompute(job)) return;
    diagnostics.push_back(unavailable_at(
        root.find("training")->find("recompute")->span,
        "this recompute in the implementation " +
            quote(name_of(training_of(job).implementation.framework)),
        "parts of layers, methods and shares are those of the implementation megatron"));
    return;
  }
  check_rules(kRules, root, job, diagnostics);
  check_megatron_units(root, job, diagnostics);
  check_te_linears(root, job, diagnostics);
  check_megatron_recompute(root, job, diagnostics);
  check_megatron_adapter(root, job, diagnostics);
  check_cuda_graphs(root, job, diagnostics);
  check_token_dispatcher(root, job, diagnostics);
  check_rules(megatron_stage_rules(), root, job, diagnostics);
  check_rules(pipeline_rules(), root, job, diagnostics);
}

}  // namespace memest
