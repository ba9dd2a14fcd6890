// The keys of transformers' TrainingArguments, of 5.x and 4.x, which other programs' arguments
// extend.
#pragma once

#include <span>
#include <string_view>

#include "reader/foreign/dialect.hpp"

namespace memest::hugging_face {

inline constexpr std::string_view kAboutKernelChoice = "another backend of the same products";
inline constexpr std::string_view kAboutWorkers =
    "the loader's processes: no file says how large its samples are or how long one takes";

inline constexpr std::string_view kDecidingWords[] = {
    "per_device_train_batch_size",
    "per_gpu_train_batch_size",
    "gradient_accumulation_steps",
    "max_grad_norm",
    "optim",
    "bf16",
    "fp16",
    "gradient_checkpointing",
    "activation_checkpointing",
    "gradient_checkpointing_kwargs.use_reentrant",
    "activation_checkpointing_kwargs.use_reentrant",
    "torch_compile",
    "torch_compile_backend",
    "torch_compile_mode",
    "use_liger_kernel",
    "liger_kernel_config.rope",
    "liger_kernel_config.rms_norm",
    "liger_kernel_config.swiglu",
    "liger_kernel_config.geglu",
    "liger_kernel_config.cross_entropy",
    "liger_kernel_config.fused_linear_cross_entropy",
    "ddp_bucket_cap_mb",
    "ddp_find_unused_parameters",
    "deepspeed",
    "fsdp",
    "tf32",
};
inline constexpr auto kDecidingRows = all_derived(kDecidingWords);

/// Keys of FSDP, with and without the prefix that accelerate's file has.
inline constexpr std::string_view kFsdpWords[] = {
    "fsdp_config.version",
    "fsdp_config.fsdp_version",
    "fsdp_config.reshard_after_forward",
    "fsdp_config.fsdp_reshard_after_forward",
    "fsdp_config.sharding_strategy",
    "fsdp_config.fsdp_sharding_strategy",
    "fsdp_config.cpu_offload",
    "fsdp_config.offload_params",
    "fsdp_config.fsdp_offload_params",
    "fsdp_config.cpu_ram_efficient_loading",
    "fsdp_config.fsdp_cpu_ram_efficient_loading",
    "fsdp_config.activation_checkpointing",
    "fsdp_config.fsdp_activation_checkpointing",
    "fsdp_config.auto_wrap_policy",
    "fsdp_config.fsdp_auto_wrap_policy",
    "fsdp_config.sync_module_states",
    "fsdp_config.fsdp_sync_module_states",
};
inline constexpr auto kFsdpRows = all_derived(kFsdpWords);
inline constexpr KeyRow kFsdpRest[] = {
    not_followed("fsdp_config.*", "", "a key of FSDP that memest does not know"),
    refused_key("fsdp_config.xla", "false", "FSDP of XLA"),
    refused_key("fsdp_config.min_num_params", "0", "division of FSDP's units by size"),
    refused_key("fsdp_config.fsdp_min_num_params", "0", "division of FSDP's units by size"),
    refused_key("fsdp_min_num_params", "0", "division of FSDP's units by size"),
    no_effect("fsdp_config.transformer_layer_cls_to_wrap", "the units are the model's layers"),
    no_effect("fsdp_config.fsdp_transformer_layer_cls_to_wrap", "the units are the model's layers"),
    no_effect("fsdp_transformer_layer_cls_to_wrap", "the units are the model's layers"),
    no_effect("fsdp_config.state_dict_type", kAboutCheckpoints),
    no_effect("fsdp_config.fsdp_state_dict_type", kAboutCheckpoints),
    no_effect("fsdp_config.final_state_dict_type", kAboutCheckpoints),
    no_effect("fsdp_config.fsdp_final_state_dict_type", kAboutCheckpoints),
    not_followed("fsdp_config.use_orig_params", "true", "FSDP1 keeps the parameters as they are"),
    not_followed("fsdp_config.fsdp_use_orig_params", "true",
                 "FSDP1 keeps the parameters as they are"),
    not_followed("fsdp_config.limit_all_gathers", "true", "FSDP1 limits its gathers"),
    not_followed("fsdp_config.fsdp_limit_all_gathers", "true", "FSDP1 limits its gathers"),
    not_followed("fsdp_config.forward_prefetch", "false", "FSDP1 gathers nothing ahead there"),
    not_followed("fsdp_config.fsdp_forward_prefetch", "false", "FSDP1 gathers nothing ahead there"),
    not_followed("fsdp_config.backward_prefetch", "backward_pre|no_prefetch",
                 "units are gathered before the gradients of the one before"),
    not_followed("fsdp_config.fsdp_backward_prefetch", "backward_pre|no_prefetch",
                 "units are gathered before the gradients of the one before"),
    no_effect("fsdp_config.xla_fsdp_v2", "FSDP of XLA"),
    no_effect("fsdp_config.xla_fsdp_grad_ckpt", "FSDP of XLA"),
    no_effect("fsdp_config.xla_fsdp_settings", "FSDP of XLA"),
};

inline constexpr KeyRow kTrainerRows[] = {
    refused_key("optim_target_modules", "", "an optimizer of low-rank projections"),
    refused_key("label_smoothing_factor", "0|0.0", "a smoothed loss of the Trainer"),
    refused_key("use_cpu", "false", "training without a GPU"),
    refused_key("no_cuda", "false", "training without a GPU"),
    refused_key("use_mps_device", "false", "training on a GPU of Apple's"),
    refused_key("half_precision_backend", "auto|cuda_amp|cpu_amp", "mixed precision by Apex"),
    refused_key("fp16_backend", "auto|cuda_amp|cpu_amp|amp", "mixed precision by Apex"),
    refused_key("use_cache", "false", "a key-value cache in the Trainer's steps"),
    refused_key("sharded_ddp", "|false", "fairscale's sharded DDP"),
    refused_key("tp_size", "0|1", "tensor parallelism of transformers"),
    refused_key("parallelism_config", "", "a layout by accelerate's parallelism_config here"),
    refused_key("accelerator_config.split_batches", "false", "division of a batch by the ranks"),
    not_followed("accelerator_config.gradient_accumulation_kwargs.*", "",
                 "gradients are reduced once a step"),
    no_effect("accelerator_config.*", kAboutData),
    not_followed("gradient_checkpointing_kwargs.*", "", "layers are recomputed as they are"),
    not_followed("activation_checkpointing_kwargs.*", "", "layers are recomputed as they are"),
    not_followed("liger_kernel_config.*", "", "a kernel that memest does not know"),
    not_followed("neftune_noise_alpha", "0|0.0", "embeddings have no noise"),
    not_followed("auto_find_batch_size", "false", "the batch is the one that is written"),
    not_followed("torch_empty_cache_steps", "", "what the allocator caches stays"),
    not_followed("ddp_static_graph", "false", "DistributedDataParallel looks at every step"),
    not_followed("ddp_backend", "nccl", "ranks speak over NCCL"),
    not_followed("do_eval", "false", "evaluation between the steps takes memory of its own"),
    not_followed("eval_strategy", "no", "evaluation between the steps takes memory of its own"),
    not_followed("evaluation_strategy", "no",
                 "evaluation between the steps takes memory of its own"),
    not_followed("eval_on_start", "false", "evaluation before the steps takes memory of its own"),
    not_followed("past_index", "-1", "no state goes from step to step"),
    no_effect("ddp_broadcast_buffers", "buffers of DistributedDataParallel"),
    no_effect("fp16_opt_level", "mixed precision by Apex"),
    no_effect("jit_mode_eval", kAboutEvaluation),
    no_effect("use_ipex", kAboutKernelChoice),
    no_effect("average_tokens_across_devices", "a number that the loss is divided by"),
    no_effect("prediction_loss_only", kAboutEvaluation),
};

inline constexpr std::string_view kScheduleWords[] = {
    "num_train_epochs",    "max_steps",
    "learning_rate",       "lr_scheduler_type",
    "lr_scheduler_kwargs", "warmup_steps",
    "warmup_ratio",        "weight_decay",
    "adam_beta1",          "adam_beta2",
    "adam_epsilon",        "optim_args",
    "adafactor_lr",        "resume_from_checkpoint"};
inline constexpr auto kScheduleRows = all_no_effect(kScheduleWords, kAboutSchedule);
inline constexpr std::string_view kLoggingWords[] = {"logging_dir",
                                                     "logging_strategy",
                                                     "logging_steps",
                                                     "logging_first_step",
                                                     "log_on_each_node",
                                                     "logging_nan_inf_filter",
                                                     "log_level",
                                                     "log_level_replica",
                                                     "disable_tqdm",
                                                     "report_to",
                                                     "run_name",
                                                     "project",
                                                     "trackio_space_id",
                                                     "trackio_bucket_id",
                                                     "trackio_static_space_id",
                                                     "skip_memory_metrics",
                                                     "debug",
                                                     "include_num_input_tokens_seen",
                                                     "include_tokens_per_second",
                                                     "plot_loss",
                                                     "wandb_project",
                                                     "wandb_entity",
                                                     "wandb_run_group"};
inline constexpr auto kLoggingRows = all_no_effect(kLoggingWords, kAboutLogging);
inline constexpr std::string_view kCheckpointWords[] = {"output_dir",
                                                        "overwrite_output_dir",
                                                        "save_strategy",
                                                        "save_steps",
                                                        "save_total_limit",
                                                        "save_safetensors",
                                                        "save_on_each_node",
                                                        "save_only_model",
                                                        "push_to_hub",
                                                        "hub_token",
                                                        "hub_private_repo",
                                                        "hub_model_id",
                                                        "hub_strategy",
                                                        "hub_always_push",
                                                        "hub_revision",
                                                        "hub_model_revision",
                                                        "load_best_model_at_end",
                                                        "metric_for_best_model",
                                                        "greater_is_better",
                                                        "ignore_data_skip",
                                                        "restore_callback_states_from_checkpoint",
                                                        "enable_jit_checkpoint",
                                                        "push_to_hub_model_id",
                                                        "push_to_hub_token",
                                                        "push_to_hub_organization",
                                                        "push_to_hub_revision"};
inline constexpr auto kCheckpointRows = all_no_effect(kCheckpointWords, kAboutCheckpoints);
inline constexpr std::string_view kEvaluationWords[] = {"per_device_eval_batch_size",
                                                        "per_gpu_eval_batch_size",
                                                        "eval_steps",
                                                        "eval_delay",
                                                        "eval_accumulation_steps",
                                                        "eval_do_concat_batches",
                                                        "eval_use_gather_object",
                                                        "include_for_metrics",
                                                        "include_inputs_for_metrics",
                                                        "batch_eval_metrics",
                                                        "bf16_full_eval",
                                                        "fp16_full_eval",
                                                        "do_predict",
                                                        "compute_accuracy"};
inline constexpr auto kEvaluationRows = all_no_effect(kEvaluationWords, kAboutEvaluation);
inline constexpr std::string_view kDataWords[] = {
    "group_by_length",      "length_column_name",    "train_sampling_strategy", "label_names",
    "dataloader_drop_last", "remove_unused_columns", "split_batches",           "dispatch_batches"};
inline constexpr auto kDataRows = all_no_effect(kDataWords, kAboutData);
inline constexpr std::string_view kWorkerWords[] = {"dataloader_num_workers",
                                                    "dataloader_pin_memory",
                                                    "dataloader_persistent_workers",
                                                    "dataloader_prefetch_factor",
                                                    "dataloader_multiprocessing_context",
                                                    "dataloader_in_order"};
inline constexpr auto kWorkerRows = all_no_effect(kWorkerWords, kAboutWorkers);
inline constexpr std::string_view kRunWords[] = {
    "do_train",          "local_rank",    "ddp_timeout",      "tpu_num_cores",
    "tpu_metrics_debug", "mp_parameters", "ray_scope",        "torchdynamo",
    "hub_exist_ok",      "xpu_backend",   "deepspeed_plugin", "n_gpu"};
inline constexpr auto kRunRows = all_no_effect(kRunWords, kAboutRun);
inline constexpr std::string_view kSeedWords[] = {"seed", "data_seed", "full_determinism"};
inline constexpr auto kSeedRows = all_no_effect(kSeedWords, kAboutSeeds);

inline constexpr FileReference kTrainerReferences[] = {
    {"deepspeed", "ds"},
    {"launch.deepspeed_config.deepspeed_config_file", "ds"},
};
inline constexpr std::string_view kTrainerTakes[] = {"launch", "ds", "config"};

}  // namespace memest::hugging_face
