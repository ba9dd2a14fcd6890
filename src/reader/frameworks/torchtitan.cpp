
#include <array>
#include <variant>

#include "memest/spec/parallel/expert_ranks.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "reader/frameworks/rules.hpp"

namespace memest {
namespace {

bool is_pipeline(const Job& job) { return job.parallelism.pipeline > 1; }

/// Layers and both ends of the model over the stages, rounded down: an end takes one.
bool leaves_stage_without_layers(const Job& job) {
  const Parallelism& p = job.parallelism;
  // generate_llm_fqn_per_model_part: layers_per_stage = (num_layers + input_weight + output_weight)
  // // num_stages, both weights 1. 2 layers over 4 stages: 1 each, and the first would hold the
  // embedding alone.
  const std::int64_t stages = checked_multiply(p.pipeline, p.virtual_stages);
  return (decoder_layers_of(job) + 2 * job.end_layers()) / stages <= job.end_layers();
}

bool splits_backwards(const Job& job) {
  return is_pipeline(job) && splits_backwards(job.parallelism.schedule);
}

bool cuts_sequences(const Job& job) { return job.parallelism.context > 1; }

bool shares_experts(const Job& job) { return job.parallelism.expert > 1; }

/// Jobs that torchtitan 0.2.2 (or memest with it) refuses.
constexpr std::array kTorchtitanRules = {
    Rule{"parallelism", "pipeline",
         [](const Job& job) { return is_pipeline(job) && leaves_stage_without_layers(job); },
         "a stage of the pipeline has no layer",
         "torchtitan counts the embedding as a layer, and the head as another: use fewer stages"},
    Rule{"parallelism", "pipeline",
         [](const Job& job) {
           // parallelize.py raises "DDP has not supported > 1D parallelism".
           return is_pipeline(job) && job.parallelism.data > 1 && !job.parallelism.fsdp;
         },
         "torchtitan's replicas of a pipeline are those of FSDP2",
         "write 'fsdp: {version: 2}' beside 'data'"},
    Rule{"parallelism", "fsdp",
         [](const Job& job) {
           return is_pipeline(job) && job.parallelism.fsdp &&
                  // apply_fsdp's "default" is `not pp_enabled`: an all-gather for every micro-batch
                  // would not overlap.
                  job.parallelism.fsdp->reshard == Reshard::always;
         },
         "gathering a pipeline's weights anew for every micro-batch is not available yet",
         "leave 'reshard_after_forward' out: under a pipeline the weights stay gathered"},
    Rule{"parallelism", "offload",
         [](const Job& job) { return is_pipeline(job) && job.parallelism.offload.any(); },
         "a pipeline whose shares lie on the host is not available yet",
         "leave 'offload' or 'pipeline' out"},
    Rule{"model", "tied_embeddings",
         [](const Job& job) {
           const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
           return is_pipeline(job) && decoder != nullptr && decoder->tied_embeddings;
         },
         "torchtitan's pipelines tie no embeddings",
         "set 'tied_embeddings' to false, or leave 'pipeline' out"},
    Rule{"parallelism", "virtual_stages",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           // ScheduleZBVZeroBubble and ScheduleDualPipeV raise for another number of stages a rank.
           return is_v_shaped(p.schedule) && p.virtual_stages != 2;
         },
         "a rank of a V-shaped schedule has two stages", "set 'virtual_stages' to 2"},
    Rule{"parallelism", "schedule",
         [](const Job& job) {
           const Parallelism& p = job.parallelism;
           return is_pipeline(job) && p.schedule == Schedule::dual_pipe_v &&
                  // ScheduleDualPipeV.__init__: "at least as many microbatches as stages". 4 ranks
                  // have 8 stages.
                  job.training->gradient_accumulation < 2 * p.pipeline;
         },
         "DualPipeV takes as many micro-batches as there are stages, or more",
         "choose a larger 'gradient_accumulation', a shorter 'pipeline' or 'schedule: zbv'"},
    Rule{"parallelism", "schedule",
         [](const Job& job) { return splits_backwards(job) && !job.parallelism.shards_rows(); },
         "backwards in two parts are available with FSDP2 only",
         "write 'fsdp: {version: 2}' beside 'data', or choose another 'schedule'"},
    Rule{"training", "recompute",
         [](const Job& job) {
           return splits_backwards(job) &&
                  std::holds_alternative<SelectiveRecompute>(job.training->recompute);
         },
         "PyTorch goes back through a selective checkpoint once, a backward in two parts for every "
         "parameter",
         "set 'recompute' to none, or choose another 'schedule'"},
    Rule{"training", "recompute",
         [](const Job& job) {
           const Recompute& recompute = job.training->recompute;
           return splits_backwards(job) && !std::holds_alternative<NoRecompute>(recompute) &&
                  !std::holds_alternative<SelectiveRecompute>(recompute);
         },
         "a backward in two parts runs a checkpoint again for every parameter: not available yet",
         "set 'recompute' to none, or choose another 'schedule'"},
    Rule{"training", "implementation",
         [](const Job& job) {
           // schedules.py: _check_torch_compile_compatibility raises for an OptimizedModule, which
           // torch.compile makes of each layer.
           return splits_backwards(job) &&
                  job.training->implementation.compile != CompileScope::off;
         },
         "torch.distributed.pipelining refuses compiled layers where backwards have two parts",
         "leave 'compile' out, or choose another 'schedule'"},
    Rule{"parallelism", "context",
         [](const Job& job) { return cuts_sequences(job) && !job.parallelism.shards_rows(); },
         "torchtitan's context ranks shard the weights with FSDP2",
         "write 'fsdp: {version: 2}' beside 'context'"},
    Rule{"training", "seq_len",
         [](const Job& job) {
           return cuts_sequences(job) && job.training->seq_len % (2 * job.parallelism.context) != 0;
         },
         "a causal sequence is cut into two parts for every context-parallel rank",
         "choose a 'seq_len' that is a multiple of twice the 'context' ranks"},
    Rule{"parallelism", "expert",
         [](const Job& job) { return shares_experts(job) && job.model.experts() == nullptr; },
         "expert parallelism shares experts, and the model has none",
         "leave 'expert' out, or give the model a 'moe'"},
    Rule{"parallelism", "expert",
         [](const Job& job) { return shares_experts(job) && !job.parallelism.shards_rows(); },
         "torchtitan's expert-parallel ranks are some of those that FSDP2 shards the weights over",
         "write 'fsdp: {version: 2}' beside 'expert'"},
    Rule{"parallelism", "expert",
         [](const Job& job) {
           return shares_experts(job) && !expert_ranks_divide_shards(job.parallelism);
         },
         "the expert-parallel ranks lie within those that shard the weights",
         "choose an 'expert' that divides 'data' · 'context' by the replicas"},
    Rule{"parallelism", "expert",
         [](const Job& job) {
           return shares_experts(job) && expert_ranks_divide_shards(job.parallelism) &&
                  !expert_columns_divide(job.model, job.parallelism);
         },
         "FSDP2 cuts an expert's columns evenly among the ranks that share it",
         "choose an 'expert' with which the hidden and the expert's size divide by the rest"},
    Rule{"parallelism", "expert_tensor",
         [](const Job& job) {
           const std::optional<std::int64_t>& cut = job.parallelism.expert_tensor;
           return cut && *cut != 1;
         },
         "experts of torchtitan that are cut over tensor ranks too are not available yet",
         "write 'expert_tensor: 1', or leave it out"},
    Rule{"parallelism", "expert_tensor",
         [](const Job& job) { return job.parallelism.whole_experts() && !shares_experts(job); },
         "torchtitan cuts experts over tensor ranks where no expert ranks share them",
         "write 'expert' of more than one rank, or leave 'expert_tensor' out"},
    Rule{"parallelism", "context_exchange",
         [](const Job& job) {
           return cuts_sequences(job) &&
                  job.parallelism.context_exchange == ContextExchange::all_to_all;
         },
         "torchtitan's context ranks gather keys and values", "leave 'context_exchange' out"},
};

}  // namespace

void check_torchtitan(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || job.training->implementation.framework != Framework::torchtitan) return;
  check_rules(kTorchtitanRules, root, job, diagnostics);
  check_rules(pipeline_rules(), root, job, diagnostics);
}

}  // namespace memest
