// The keys of torchtitan's TOML: those of 0.2.2 (torchtitan/config/job_config.py), and the names
// that 0.1 and earlier releases have for them.
#include "reader/foreign/torchtitan/torchtitan.hpp"

namespace memest::torchtitan {
namespace {

constexpr std::string_view kAboutDebug = "how a run is looked at";

constexpr WordPair kOptimizerNames[] = {{"AdamW", "adamw"}, {"Adam", "adam"}};
constexpr WordPair kOptimizerKinds[] = {
    {"fused", "fused"}, {"foreach", "foreach"}, {"for-loop", "for-loop"}};
constexpr WordPair kFusedFlag[] = {{"true", "fused"}, {"false", "foreach"}};

constexpr KeyRow kTraining[] = {
    {.key = "training.seq_len", .own = "training.seq_len", .absent = "2048"},
    derived("training.local_batch_size"),
    derived("training.batch_size"),
    derived("training.global_batch_size"),
    derived("training.dtype"),
    derived("training.mixed_precision_param"),
    not_followed("training.mixed_precision_reduce", "float32",
                 "gradients are reduced in fp32 there"),
    derived("training.max_norm"),
    {.key = "optimizer.name",
     .own = "training.optimizer.name",
     .words = kOptimizerNames,
     .absent = "adamw"},
    {.key = "optimizer.implementation",
     .own = "training.optimizer.implementation",
     .words = kOptimizerKinds},
    {.key = "optimizer.fused", .own = "training.optimizer.implementation", .words = kFusedFlag},
    refused_key("optimizer.early_step_in_backward", "false",
                "an optimizer that steps within the backward"),
    derived("activation_checkpoint.mode"),
    derived("activation_checkpoint.type"),
    derived("activation_checkpoint.selective_ac_option"),
    not_followed("activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns", "",
                 "only every second matrix product is recomputed"),
    not_followed("activation_checkpoint.early_stop", "false", "a layer is recomputed to its end"),
    no_effect("activation_checkpoint.*", kAboutDebug),
    derived("compile.enable"),
    derived("compile.components"),
    not_followed("compile.backend", "inductor", "layers are compiled by Inductor"),
    derived("training.compile"),
    derived("model.converters"),
    derived("quantize.linear.float8.recipe_name"),
    derived("quantize.linear.float8.enable_fsdp_float8_all_gather"),
    derived("quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp"),
    derived("quantize.linear.float8.filter_fqns"),
    derived("float8.recipe_name"),
    derived("float8.enable_fsdp_float8_all_gather"),
    derived("float8.precompute_float8_dynamic_scale_for_fsdp"),
    derived("float8.filter_fqns"),
    derived("float8.enable_float8_linear"),
    derived("training.enable_float8_linear"),
    derived("float8.moe_fqns_prototype"),
    not_followed("quantize.linear.float8.emulate", "false", "the products are the GPU's own"),
    not_followed("float8.emulate", "false", "the products are the GPU's own"),
    no_effect("float8.force_recompute_fp8_weight_in_bwd", "float8 weights"),
    no_effect("quantize.*", "what 'model.converters' does not name"),
    no_effect("mx.*", "what 'model.converters' does not name"),
};

constexpr KeyRow kParallelism[] = {
    derived("parallelism.data_parallel_replicate_degree"),
    derived("parallelism.data_parallel_shard_degree"),
    derived("parallelism.fsdp_reshard_after_forward"),
    derived("parallelism.tensor_parallel_degree"),
    derived("parallelism.disable_loss_parallel"),
    derived("parallelism.pipeline_parallel_degree"),
    derived("parallelism.pipeline_parallel_schedule"),
    derived("parallelism.pipeline_parallel_microbatch_size"),
    derived("parallelism.pipeline_parallel_microbatches"),
    derived("parallelism.pipeline_parallel_layers_per_stage"),
    not_followed("parallelism.pipeline_parallel_first_stage_less_layers", "1",
                 "the embedding counts as one layer of a stage"),
    not_followed("parallelism.pipeline_parallel_last_stage_less_layers", "1",
                 "the head counts as one layer of a stage"),
    refused_key("parallelism.module_fqns_per_model_part", "",
                "a pipeline whose stages are named by module"),
    refused_key("parallelism.pipeline_parallel_split_points", "",
                "a pipeline whose stages are named by module"),
    refused_key("parallelism.pipeline_parallel_schedule_csv", "|None", "a schedule in a file"),
    no_effect("parallelism.pipeline_parallel_expert_parallel_overlap", "DualPipeV's threads"),
    derived("parallelism.context_parallel_degree"),
    not_followed("parallelism.context_parallel_rotate_method", "allgather",
                 "keys and values are gathered"),
    not_followed("parallelism.context_parallel_load_balancer", "headtail",
                 "a sequence is cut into two parts for every rank"),
    derived("parallelism.expert_parallel_degree"),
    derived("parallelism.expert_tensor_parallel_degree"),
    not_followed("parallelism.expert_parallel_comm_backend", "standard",
                 "experts exchange tokens with all-to-all"),
    not_followed("parallelism.enable_async_tensor_parallel", "false",
                 "products and collectives of tensor ranks follow each other"),
    not_followed("parallelism.enable_compiled_autograd", "false", "the backward is eager"),
    derived("training.enable_cpu_offload"),
    // 0.1 and earlier.
    derived("training.data_parallel_degree"),
    derived("training.data_parallel_replicate_degree"),
    derived("training.data_parallel_shard_degree"),
    derived("training.fsdp_reshard_after_forward"),
    derived("training.tensor_parallel_degree"),
    derived("training.disable_loss_parallel"),
    derived("experimental.context_parallel_degree"),
    derived("experimental.pipeline_parallel_degree"),
    derived("experimental.pipeline_parallel_schedule"),
    derived("experimental.pipeline_parallel_microbatches"),
    refused_key("experimental.pipeline_parallel_split_points", "",
                "a pipeline whose stages are named by module"),
    not_followed("experimental.context_parallel_rotate_method", "allgather",
                 "keys and values are gathered"),
    not_followed("experimental.enable_async_tensor_parallel", "false",
                 "products and collectives of tensor ranks follow each other"),
    not_followed("experimental.enable_compiled_autograd", "false", "the backward is eager"),
};

constexpr KeyRow kRest[] = {
    derived("model.name"),
    derived("model.flavor"),
    not_followed("model.norm_type", "rmsnorm|fused_rmsnorm", "norms are PyTorch's rms_norm"),
    no_effect("model.tokenizer_path", kAboutPaths),
    no_effect("model.hf_assets_path", kAboutPaths),
    no_effect("model.print_after_conversion", kAboutLogging),
    no_effect("model.description", kAboutPaths),
    not_followed("model.tokenizer_flavor", "", "the vocabulary is the flavor's own"),
    no_effect("job.*", kAboutPaths),
    no_effect("profiling.*", kAboutLogging),
    no_effect("metrics.*", kAboutLogging),
    no_effect("comm.*", kAboutRun),
    no_effect("debug.*", kAboutDebug),
    no_effect("memory_estimation.*", kAboutDebug),
    no_effect("optimizer.lr", kAboutSchedule),
    no_effect("optimizer.beta1", kAboutSchedule),
    no_effect("optimizer.beta2", kAboutSchedule),
    no_effect("optimizer.eps", kAboutSchedule),
    no_effect("optimizer.weight_decay", kAboutSchedule),
    no_effect("lr_scheduler.*", kAboutSchedule),
    no_effect("training.steps", kAboutSchedule),
    no_effect("training.warmup_steps", kAboutSchedule),
    no_effect("training.dataset", kAboutData),
    no_effect("training.dataset_path", kAboutData),
    no_effect("training.gc_freq", kAboutRun),
    no_effect("training.gc_debug", kAboutRun),
    no_effect("training.seed", kAboutSeeds),
    no_effect("training.deterministic", kAboutSeeds),
    not_followed("training.dataloader.num_workers", "0",
                 "how fast its workers are stands in no file: training.data says it"),
    no_effect("training.dataloader.*", kAboutData),
    not_followed("checkpoint.async_mode", "disabled|async",
                 "the host's page-locked copy of the states is not counted"),
    no_effect("checkpoint.*", kAboutCheckpoints),
    not_followed("validation.enable", "false", "no step of evaluation is looked at"),
    no_effect("validation.*", kAboutEvaluation),
    refused_key("fault_tolerance.enable", "false", "training with TorchFT"),
    no_effect("fault_tolerance.*", "fault tolerance"),
    not_followed("experimental.custom_import", "", "what the module changes stands in no file"),
    not_followed("experimental.custom_args_module", "",
                 "what the module changes stands in no file"),
    not_followed("experimental.custom_model_path", "", "what the module changes stands in no file"),
};

constexpr std::span<const KeyRow> kTables[] = {kTraining, kParallelism, kRest};

constexpr std::string_view kByFlavor[] = {"model.flavor"};
constexpr std::string_view kByRanks[] = {"parallelism.data_parallel_shard_degree"};
constexpr std::string_view kByBatch[] = {"training.local_batch_size"};
constexpr TellingKeys kTelling[] = {kByFlavor, kByRanks, kByBatch};

constexpr Derivation kDerivations[] = {write_model,     write_ranks,   write_batch, write_precision,
                                       write_recompute, write_kernels, write_float8};

constexpr Dialect kDialect = {.name = "torchtitan",
                              .noun = "torchtitan's TOML",
                              .syntax = Syntax::toml,
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations};

}  // namespace
}  // namespace memest::torchtitan

namespace memest {

const Dialect& torchtitan_dialect() { return torchtitan::kDialect; }

}  // namespace memest
