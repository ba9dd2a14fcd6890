// LLaMA-Factory's YAML (`llamafactory-cli train FILE`), hparams of 0.9: transformers'
// TrainingArguments with its own beside them.
#include "reader/foreign/hugging_face/accelerate_keys.hpp"
#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/foreign/hugging_face/trainer_keys.hpp"
#include "reader/text/scalar.hpp"

namespace memest::hugging_face::llama_factory {
namespace {

constexpr std::string_view kModel = "model_name_or_path";
constexpr std::string_view kKind = "finetuning_type";
constexpr std::string_view kLength[] = {"cutoff_len"};
constexpr LoraNames kLora = {.model = kModel,
                             .rank = "lora_rank",
                             .rank_absent = "8",
                             .targets = "lora_target",
                             .all_absent = true,
                             .dropout = "lora_dropout",
                             .dropout_absent = "0.0",
                             .whole = "additional_target",
                             .asking = kKind,
                             .dora = "use_dora"};

/// model/adapter.py: what is trained is cast to fp32 unless pure_bf16; the rest is loaded in the
/// type that the forward is cast to.
std::optional<HalfType> loaded_type(const ForeignImport& file, bool adapts, HalfType autocast) {
  if (file.flag("pure_bf16")) return HalfType::bf16;
  if (!adapts) return HalfType::none;
  return autocast == HalfType::none ? std::nullopt : std::optional(autocast);
}

void write_checkpoints(ForeignImport& file) {
  constexpr std::string_view kOff = "disable_gradient_checkpointing";
  constexpr std::string_view kReentrant = "use_reentrant_gc";
  if (file.flag(kOff)) return file.write("training.recompute", "none", {kOff});
  // checkpointing.py: FSDP2 has no reentrant checkpoints.
  const bool reentrant = file.flag(kReentrant, true) && !has_fsdp(file);
  file.write("training.recompute", reentrant ? "{full: {reentrant: true}}" : "full",
             {kOff, kReentrant});
}

void write_quantisation(ForeignImport& file) {
  constexpr std::string_view kBits = "quantization_bit";
  constexpr std::string_view kMethod = "quantization_method";
  if (file.find(kBits) == nullptr) return;
  const std::string method = file.text(kMethod, "bnb");
  if (!is_same_word(method, "bnb") && !is_same_word(method, "bitsandbytes")) {
    return file.refuse(kMethod, "quantisation by " + quote(method), "known is bnb");
  }
  if (file.text(kBits) == "8") {
    return file.write("compression.quantize.weights", "int8", {kBits, kMethod});
  }
  if (file.text(kBits) != "4") {
    return file.refuse(kBits, "quantisation to " + file.text(kBits) + " bits",
                       "known are 4 and 8 bits");
  }
  // model_utils/quantization.py: bnb_4bit_quant_storage=model_args.compute_dtype.
  const bool half = file.flag("bf16") || file.flag("pure_bf16");
  const char* const compute = half ? "bfloat16" : file.flag("fp16") ? "float16" : "float32";
  write_codes(file, {kBits, "quantization_type", "double_quantization", "true", "", compute});
}

void write_job(ForeignImport& file) {
  const std::string stage = file.text("stage", "sft");
  if (stage != "sft" && stage != "pt") {
    return file.refuse("stage", "training by preferences or rewards (" + quote(stage) + ")",
                       "known are sft and pt");
  }
  const std::string kind = file.text(kKind, "lora");
  if (kind != "lora" && kind != "full") {
    return file.refuse(kKind, "the training of " + quote(kind), "known are lora and full");
  }
  const bool adapts = kind == "lora";
  const HalfType autocast = autocast_of(file);
  file.credit("stage", "training");
  file.credit(kKind, adapts ? "training.adapter" : "training");
  write_hub_model(file, kModel);
  write_batch(file, "per_device_train_batch_size", "8");
  write_length(file, kLength, "2048");
  write_precision(file, loaded_type(file, adapts, autocast), autocast);
  write_checkpoints(file);
  write_optimizer(file, "optim");
  write_loop(file);
  write_sharing(file, "2");
  if (adapts) write_lora(file, kLora);
  write_quantisation(file);
}

constexpr WordPair kAttentions[] = {{"auto", ""},       {"disabled", "eager"}, {"sdpa", "sdpa"},
                                    {"fa2", "flash-2"}, {"fa3", "flash-3"},    {"off", "eager"}};
constexpr WordPair kLiger[] = {{"true", "true"}, {"false", ""}};
constexpr std::string_view kDeciding[] = {kModel,
                                          "stage",
                                          kKind,
                                          "cutoff_len",
                                          "pure_bf16",
                                          "lora_rank",
                                          "lora_target",
                                          "lora_dropout",
                                          "additional_target",
                                          "use_dora",
                                          "quantization_bit",
                                          "quantization_method",
                                          "quantization_type",
                                          "double_quantization",
                                          "disable_gradient_checkpointing",
                                          "use_reentrant_gc"};
constexpr auto kDecidingOwn = all_derived(kDeciding);
constexpr KeyRow kRows[] = {
    maps("flash_attn", "training.implementation.attention", kAttentions),
    maps("enable_liger_kernel", "training.implementation.liger", kLiger),
    refused_key("use_unsloth", "false", "training by Unsloth"),
    refused_key("use_unsloth_gc", "false", "checkpointing by Unsloth"),
    refused_key("shift_attn", "false", "shifted sparse attention"),
    refused_key("mixture_of_depths", "", "mixture of depths"),
    refused_key("use_llama_pro", "false", "training of added blocks"),
    refused_key("use_galore", "false", "the optimizer GaLore"),
    refused_key("use_apollo", "false", "the optimizer APOLLO"),
    refused_key("use_badam", "false", "the optimizer BAdam"),
    refused_key("use_adam_mini", "false", "the optimizer Adam-mini"),
    refused_key("use_muon", "false", "the optimizer Muon of LLaMA-Factory"),
    refused_key("use_mca", "false", "Megatron under LLaMA-Factory"),
    refused_key("use_hyper_parallel", "false", "HyperParallel"),
    refused_key("use_kt", "false", "KTransformers"),
    refused_key("fp8", "false", "fp8 under accelerate"),
    refused_key("upcast_layernorm", "false", "a model in 16 bits with norms in fp32"),
    refused_key("upcast_lmhead_output", "false", "a cast of logits to fp32"),
    refused_key("use_dft_loss", "false", "another loss of LLaMA-Factory"),
    refused_key("use_asft_loss", "false", "another loss of LLaMA-Factory"),
    refused_key("use_eaft_loss", "false", "another loss of LLaMA-Factory"),
    refused_key("moe_aux_loss_coef", "", "a mixture's balancing loss"),
    refused_key("quantization_device_map", "", "division of layers over one process's GPUs"),
    not_followed("packing", "false|", "sequences of one length lie apart"),
    not_followed("neat_packing", "false", "sequences of one length lie apart"),
    not_followed("resize_vocab", "false", "the vocabulary is the model's own"),
    not_followed("add_tokens", "", "the vocabulary is the model's own"),
    not_followed("add_special_tokens", "", "the vocabulary is the model's own"),
    not_followed("new_special_tokens_config", "", "the vocabulary is the model's own"),
    not_followed("val_size", "0|0.0", "evaluation between the steps takes memory of its own"),
    not_followed("enable_torch_profiler", "false", "no profiler runs"),
    no_effect("adapter_name_or_path", "where its adapters begin"),
    no_effect("create_new_adapter", "where its adapters begin"),
    no_effect("pissa_init", kAboutSeeds),
    no_effect("pissa_iter", kAboutSeeds),
    no_effect("pissa_convert", kAboutCheckpoints),
    no_effect("rope_scaling", "positions of the same sizes"),
    no_effect("train_from_scratch", kAboutSeeds),
    no_effect("low_cpu_mem_usage", kAboutRun),
    no_effect("image_do_pan_and_scan", kAboutData),
    no_effect("crop_to_patches", kAboutData),
    no_effect("use_audio_in_video", kAboutData),
    no_effect("audio_sampling_rate", kAboutData),
};
constexpr std::string_view kSchedule[] = {
    "lora_alpha", "use_rslora", "loraplus_lr_ratio", "loraplus_lr_embedding",
    "pref_beta",  "pref_ftx",   "pref_loss",         "early_stopping_steps",
    "asft_alpha", "eaft_alpha"};
constexpr auto kScheduleOwn = all_no_effect(kSchedule, kAboutSchedule);
constexpr std::string_view kIdle[] = {"freeze_trainable_layers",
                                      "freeze_trainable_modules",
                                      "freeze_extra_modules",
                                      "module_dropout",
                                      "oft_rank",
                                      "oft_block_size",
                                      "oft_target",
                                      "galore_target",
                                      "galore_rank",
                                      "galore_update_interval",
                                      "galore_scale",
                                      "galore_proj_type",
                                      "galore_layerwise",
                                      "apollo_target",
                                      "apollo_rank",
                                      "apollo_update_interval",
                                      "apollo_scale",
                                      "apollo_proj",
                                      "apollo_proj_type",
                                      "apollo_scale_type",
                                      "apollo_layerwise",
                                      "apollo_scale_front",
                                      "badam_mode",
                                      "badam_start_block",
                                      "badam_switch_mode",
                                      "badam_switch_interval",
                                      "badam_update_ratio",
                                      "badam_mask_mode",
                                      "badam_verbose",
                                      "pref_bco_weight",
                                      "dpo_label_smoothing",
                                      "kto_chosen_weight",
                                      "kto_rejected_weight",
                                      "simpo_gamma",
                                      "ppo_buffer_size",
                                      "ppo_epochs",
                                      "ppo_score_norm",
                                      "ppo_target",
                                      "ppo_whiten_rewards",
                                      "ref_model",
                                      "ref_model_adapters",
                                      "ref_model_quantization_bit",
                                      "reward_model",
                                      "reward_model_adapters",
                                      "reward_model_quantization_bit",
                                      "reward_model_type",
                                      "ld_alpha",
                                      "fp8_backend",
                                      "fp8_enable_fsdp_float8_all_gather",
                                      "hyper_parallel_args",
                                      "kt_weight_path",
                                      "kt_expert_checkpoint_path",
                                      "kt_use_lora_experts",
                                      "kt_lora_expert_num",
                                      "kt_lora_expert_intermediate_size",
                                      "profiler_output_dir",
                                      "profiler_wait_steps",
                                      "profiler_warmup_steps",
                                      "profiler_active_steps",
                                      "profiler_repeat",
                                      "profiler_record_shapes",
                                      "profiler_profile_memory",
                                      "profiler_with_stack",
                                      "profile_modules",
                                      "vllm_maxlen",
                                      "vllm_gpu_util",
                                      "vllm_enforce_eager",
                                      "vllm_max_lora_rank",
                                      "vllm_config",
                                      "sglang_maxlen",
                                      "sglang_mem_fraction",
                                      "sglang_tp_size",
                                      "sglang_config",
                                      "sglang_lora_backend",
                                      "export_quantization_bit",
                                      "export_quantization_dataset",
                                      "export_quantization_nsamples",
                                      "export_quantization_maxlen",
                                      "export_hub_model_id",
                                      "swanlab_logdir",
                                      "swanlab_lark_webhook_url",
                                      "swanlab_lark_secret"};
constexpr auto kIdleOwn = all_no_effect(kIdle, "a choice of what is not asked for");
constexpr std::string_view kData[] = {"template",
                                      "dataset",
                                      "eval_dataset",
                                      "dataset_dir",
                                      "media_dir",
                                      "train_on_prompt",
                                      "mask_history",
                                      "streaming",
                                      "buffer_size",
                                      "mix_strategy",
                                      "interleave_probs",
                                      "overwrite_cache",
                                      "preprocessing_batch_size",
                                      "preprocessing_num_workers",
                                      "max_samples",
                                      "eval_num_beams",
                                      "ignore_pad_token_for_loss",
                                      "eval_on_each_dataset",
                                      "tool_format",
                                      "default_system",
                                      "enable_thinking",
                                      "preserve_thinking",
                                      "tokenized_path",
                                      "data_shared_file_system",
                                      "disable_shuffling",
                                      "split_special_tokens",
                                      "use_fast_tokenizer",
                                      "reserved_label_len",
                                      "image_max_pixels",
                                      "image_min_pixels",
                                      "video_max_pixels",
                                      "video_min_pixels",
                                      "video_fps",
                                      "video_maxlen",
                                      "freeze_vision_tower",
                                      "freeze_language_model",
                                      "freeze_multi_modal_projector",
                                      "dataset_shards",
                                      "init_special_tokens"};
constexpr auto kDataOwn = all_no_effect(kData, kAboutData);
constexpr std::string_view kRun[] = {"cache_dir",
                                     "model_revision",
                                     "trust_remote_code",
                                     "hf_hub_token",
                                     "ms_hub_token",
                                     "om_hub_token",
                                     "print_param_status",
                                     "infer_backend",
                                     "infer_dtype",
                                     "offload_folder",
                                     "use_kv_cache",
                                     "use_v1_kernels",
                                     "export_dir",
                                     "export_size",
                                     "export_device",
                                     "export_legacy_format",
                                     "ray_run_name",
                                     "ray_storage_path",
                                     "ray_num_workers",
                                     "resources_per_worker",
                                     "placement_strategy",
                                     "ray_init_kwargs",
                                     "master_addr",
                                     "master_port",
                                     "use_swanlab",
                                     "swanlab_project",
                                     "swanlab_run_name",
                                     "swanlab_workspace",
                                     "swanlab_mode",
                                     "swanlab_api_key",
                                     "predict_with_generate",
                                     "adapter_folder",
                                     "include_effective_tokens_per_second",
                                     "max_new_tokens",
                                     "temperature",
                                     "top_p",
                                     "do_sample"};
constexpr auto kRunOwn = all_no_effect(kRun, kAboutRun);

constexpr std::string_view kByKind[] = {kKind};
constexpr std::string_view kByLength[] = {"cutoff_len"};
constexpr std::string_view kByStage[] = {"stage", "template"};
constexpr TellingKeys kTelling[] = {kByKind, kByLength, kByStage};
constexpr std::span<const KeyRow> kTables[] = {
    kDecidingRows, kFsdpRows,     kFsdpRest,       kTrainerRows,    kScheduleRows,
    kLoggingRows,  kRunRows,      kCheckpointRows, kEvaluationRows, kDataRows,
    kWorkerRows,   kSeedRows,     kDecidingOwn,    kRows,           kScheduleOwn,
    kIdleOwn,      kDataOwn,      kRunOwn,         kLaunchDeciding, kLaunchRows,
    kLaunchRun,    kZeroDeciding, kZeroRows,       kZeroRun,        kConfigRows};
constexpr Derivation kDerivations[] = {write_job};
constexpr Dialect kDialect = {.name = "llama-factory",
                              .noun = "a LLaMA-Factory config",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations,
                              .takes = kTrainerTakes,
                              .references = kTrainerReferences};

}  // namespace
}  // namespace memest::hugging_face::llama_factory

const memest::Dialect& memest::llama_factory_dialect() {
  return hugging_face::llama_factory::kDialect;
}
