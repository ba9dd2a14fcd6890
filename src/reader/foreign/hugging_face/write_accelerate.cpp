// A job of the Hugging Face Trainer as files: accelerate 1.15's configuration, TrainingArguments of
// transformers 5.17, how the model is loaded, and peft 0.21's LoRA.
#include <algorithm>
#include <optional>
#include <string>

#include "memest/spec/framework.hpp"
#include "reader/export/job_keys.hpp"
#include "reader/export/tree.hpp"
#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/foreign/hugging_face/writing.hpp"

namespace memest::hugging_face::accelerate {
namespace {

constexpr std::string_view kProgram = "accelerate 1.15 with the Trainer of transformers 5.17";

constexpr ExportRow kStep[] = {
    beside("training.seq_len"),
    written("training.micro_batch"),
    written("training.gradient_accumulation"),
    written("training.precision"),
    written("training.optimizer.name"),
    written("training.optimizer.implementation"),
    held("training.optimizer.in_backward", "false"),
    held("training.optimizer.exp_avg", "none"),
    held("training.optimizer.exp_avg_sq", "none"),
    held("training.optimizer.main_params", "none"),
    held("training.recompute", "none|full|{full: {reentrant: true}}"),
    held("training.offload_activations", "none"),
    written("training.clip_gradients"),
    held("training.zero_grad", "set-to-none"),
    held("training.hold_outputs", "false"),
    held("training.ema", "false"),
    held("training.use_cache", "false"),
    held("training.loss", "cross-entropy"),
    held("training.completion_len", "none"),
    held("training.padding_free", "false"),
    held("training.dropout", "own"),
    written("training.adapter"),
    not_yet("training.float8", "none"),
    held("training.images", "none"),
    held("training.image_size", "none"),
    held("training.freeze", "none"),
    held("training.teacher", "none"),
    written("training.data.workers"),
    written("training.data.prefetch"),
    written("training.data.pin_memory"),
    not_yet("compression", "none"),
    held("training.implementation.loop", "trainer"),
    not_yet("training.implementation.attention", "sdpa|eager|flash-2"),
    held("training.implementation.loss", "upcast"),
    not_yet("training.implementation.compile", "off"),
    held("training.implementation.cuda_graph", "off"),
    held("training.implementation.token_dispatcher", "alltoall"),
    written("training.implementation.liger"),
    written("parallelism.data"),
    written("parallelism.zero"),
    written("parallelism.ddp"),
    written("parallelism.deepspeed"),
    written("parallelism.fsdp"),
    written("parallelism.offload"),
};

std::span<const std::span<const ExportRow>> rows() {
  static const std::span<const ExportRow> tables[] = {kStep, rows_of_whole_models()};
  return tables;
}

/// The Trainer's name for the optimizer; none where it has another implementation, or none at all.
const WordPair* optim_of(const Job& job) {
  const TrainingSpec& training = *job.training;
  const std::string& name = training.optimizer.name;
  const std::string_view implementation = name_of(training.optimizer_implementation);
  const auto& known = training.optimizer.implementations;
  const bool is_usual =
      known.empty() || known.front().implementation == training.optimizer_implementation;
  const std::string in_full =
      "{name: " + name + ", implementation: " + std::string(implementation) + "}";
  const auto rows = trainer_optimizers();
  const auto row = std::ranges::find_if(rows, [&](const WordPair& pair) {
    return pair.own == in_full || (is_usual && pair.own == name);
  });
  return row == rows.end() ? nullptr : &*row;
}

/// trainer.py, create_optimizer: GlobalOptimManager keeps an embedding's states in 32 bits, which
/// nobody counts.
bool keeps_wide_embeddings(const Job& job) {
  return job.training->optimizer.name.ends_with("8bit") && !job.model.adapter;
}

/// The types of a recipe: what from_pretrained loads, and what accelerate casts to.
struct LoadedTypes {
  std::string_view recipe;
  std::string_view weights;
  std::string_view mixed;
};
constexpr LoadedTypes kReplicaTypes[] = {{"fp32", "float32", "no"},
                                         {"bf16", "bfloat16", "no"},
                                         {"amp-bf16", "float32", "bf16"},
                                         {"amp-fp16", "float32", "fp16"},
                                         {"bf16-autocast", "bfloat16", "bf16"}};
constexpr LoadedTypes kUnitTypes[] = {{"fp32", "float32", "no"},
                                      {"bf16", "bfloat16", "no"},
                                      {"accelerate-fsdp2-bf16", "float32", "bf16"},
                                      {"bf16-autocast", "bfloat16", "bf16"}};  // beside adapters
// DeepSpeed casts the model itself, and makes its fp32 weights of it.
constexpr LoadedTypes kZeroTypes[] = {{"fp32", "float32", "no"},
                                      {"mixed", "bfloat16", "bf16"},
                                      {"mixed-fp32-grad", "bfloat16", "bf16"}};

std::span<const LoadedTypes> types_of(const Job& job) {
  if (sharding_as<DeepSpeedZero>(job)) return kZeroTypes;
  return job.parallelism.fsdp ? std::span<const LoadedTypes>(kUnitTypes) : kReplicaTypes;
}

const LoadedTypes* find_types(const Job& job) {
  const auto types = types_of(job);
  const auto found = std::ranges::find(types, job.training->recipe.name, &LoadedTypes::recipe);
  return found == types.end() ? nullptr : &*found;
}

void write_units(const FullySharded& fsdp, bool offloads, Value& config) {
  set(config, "fsdp_config.fsdp_version", number_of_count(2));
  set(config, "fsdp_config.fsdp_auto_wrap_policy", word_of("TRANSFORMER_BASED_WRAP"));
  set(config, "fsdp_config.fsdp_reshard_after_forward", flag_of(fsdp.reshard == Reshard::always));
  set(config, "fsdp_config.fsdp_offload_params", flag_of(offloads));
  set(config, "fsdp_config.fsdp_cpu_ram_efficient_loading", flag_of(fsdp.init == ShardInit::meta));
  set(config, "fsdp_config.fsdp_activation_checkpointing", flag_of(false));
  set(config, "fsdp_config.fsdp_state_dict_type", word_of("SHARDED_STATE_DICT"));
}

std::string_view distributed_type_of(const Job& job) {
  if (sharding_as<DeepSpeedZero>(job)) return "DEEPSPEED";
  if (job.parallelism.fsdp) return "FSDP";
  return job.parallelism.ranks() > 1 ? "MULTI_GPU" : "NO";
}

std::string accelerate_text(const Job& job, const LoadedTypes& types) {
  const LaunchedRanks ranks = launched_ranks(job).value_or(LaunchedRanks{});
  Value config;
  set(config, "compute_environment", word_of("LOCAL_MACHINE"));
  set(config, "distributed_type", word_of(distributed_type_of(job)));
  // Beside a file of DeepSpeed's accelerate takes no other word for it.
  if (!sharding_as<DeepSpeedZero>(job)) set(config, "mixed_precision", word_of(types.mixed));
  set(config, "num_machines", number_of_count(ranks.nodes));
  set(config, "num_processes", number_of_count(job.parallelism.ranks()));
  set(config, "machine_rank", number_of_count(0));
  set(config, "main_training_function", word_of("main"));
  set(config, "use_cpu", flag_of(false));
  if (sharding_as<DeepSpeedZero>(job)) {
    set(config, "deepspeed_config.deepspeed_config_file", word_of("ds_config.json"));
    set(config, "deepspeed_config.zero3_init_flag",
        flag_of(job.parallelism.zero == ZeroStage::optimizer_gradients_weights));
  }
  if (job.parallelism.fsdp)
    write_units(*job.parallelism.fsdp, job.parallelism.offload.any(), config);
  const std::string several =
      ranks.nodes == 1
          ? ""
          : " --machine_rank RANK \\\n#     --main_process_ip HOST --main_process_port 29500";
  return "# For " + std::string(kProgram) + ". The script has the data (samples of\n# " +
         std::to_string(job.training->seq_len) +
         " tokens), the learning rate and the number of steps; training_arguments.json is its\n"
         "# TrainingArguments, model.json says how it loads the model.\n"
         "#\n#   " +
         environment_prefix(job) + "accelerate launch --config_file accelerate.yaml" + several +
         " \\\n#     TRAIN.py training_arguments.json\n\n" + written_as_yaml(config);
}

void write_loader(const Job& job, Value& arguments) {
  const auto& data = job.training->data;
  if (!data) return;
  set(arguments, "dataloader_num_workers", number_of_count(data->workers));
  if (data->workers > 0)
    set(arguments, "dataloader_prefetch_factor", number_of_count(data->prefetch));
  set(arguments, "dataloader_pin_memory", flag_of(data->pin_memory));
}

/// apply_liger_kernel_to_MODEL_TYPE's arguments.
void write_liger(const Job& job, Value& arguments) {
  const LigerKernels& kernels = job.training->implementation.liger;
  set(arguments, "use_liger_kernel", flag_of(kernels.any()));
  if (!kernels.any()) return;
  const auto* model = std::get_if<DecoderSpec>(&job.model.architecture);
  const auto* dense = model == nullptr
                          ? nullptr
                          : std::get_if<DenseFeedForward>(&model->kinds.front().feed_forward);
  const bool silu = dense == nullptr || dense->activation == ActivationFunction::silu;
  set(arguments, "liger_kernel_config.rope", flag_of(kernels.rope));
  set(arguments, "liger_kernel_config.rms_norm", flag_of(kernels.rms_norm));
  set(arguments, silu ? "liger_kernel_config.swiglu" : "liger_kernel_config.geglu",
      flag_of(kernels.gated));
  set(arguments, "liger_kernel_config.fused_linear_cross_entropy",
      flag_of(kernels.fused_linear_cross_entropy));
}

Value arguments_of(const Job& job, const WordPair& optim, const LoadedTypes& types) {
  const TrainingSpec& training = *job.training;
  const auto* full = std::get_if<FullRecompute>(&training.recompute);
  Value arguments;
  set(arguments, "per_device_train_batch_size", number_of_count(training.micro_batch));
  set(arguments, "gradient_accumulation_steps", number_of_count(training.gradient_accumulation));
  set(arguments, "bf16", flag_of(types.mixed == "bf16"));
  set(arguments, "fp16", flag_of(types.mixed == "fp16"));
  set(arguments, "optim", word_of(optim.foreign));
  set(arguments, "max_grad_norm", literal_of(training.clip_gradients ? "1.0" : "0.0"));
  set(arguments, "gradient_checkpointing", flag_of(full != nullptr));
  if (full != nullptr) {
    set(arguments, "gradient_checkpointing_kwargs.use_reentrant", flag_of(full->reentrant));
  }
  set(arguments, "torch_compile", flag_of(false));
  write_liger(job, arguments);
  if (const auto replicas = sharding_as<ReplicasOfDdp>(job)) {
    set(arguments, "ddp_bucket_cap_mb",
        number_of_count(replicas->buckets.bucket_cap.value() / kMiB));
    if (const auto& finds = replicas->buckets.finds_unused) {
      set(arguments, "ddp_find_unused_parameters", flag_of(*finds));
    }
  }
  write_loader(job, arguments);
  return arguments;
}

/// transformers' name for the attention; one of those that the rows hold.
std::string_view attention_word(AttentionKernel kernel) {
  const std::string_view name = name_of(kernel);
  return name == "flash-2" ? "flash_attention_2" : name;
}

Value model_of(const Job& job, const LoadedTypes& types) {
  Value model;
  set(model, "from_pretrained.dtype", word_of(types.weights));
  set(model, "from_pretrained.attn_implementation",
      word_of(attention_word(job.training->implementation.attention)));
  if (job.model.adapter) {
    // peft widens 16-bit adapters unless it is told not to.
    const bool wide = job.model.adapter->dtype == DType::fp32;
    set(model, "get_peft_model.autocast_adapter_dtype", flag_of(wide));
  }
  return model;
}

/// peft's names for an adapter's own keys, by its kind.
struct PeftNames {
  std::string_view type;
  std::string_view dropout;
};
PeftNames peft_names(AdapterKind kind) {
  switch (kind) {
    case AdapterKind::lora:
    case AdapterKind::dora:
      return {"LORA", "lora_dropout"};
    case AdapterKind::ia3:
      return {"IA3", {}};
    case AdapterKind::vera:
      return {"VERA", "vera_dropout"};
    case AdapterKind::prompt_tuning:
      return {"PROMPT_TUNING", {}};
    case AdapterKind::p_tuning:
      return {"P_TUNING", {}};
  }
  return {};
}

Value config_of(const Adapter& adapter) {
  const PeftNames names = peft_names(adapter.kind);
  const bool scales = adapter.kind == AdapterKind::ia3;
  Value config;
  set(config, "peft_type", word_of(names.type));
  set(config, "task_type", word_of("CAUSAL_LM"));
  if (adapter.is_prompt()) {
    set(config, "num_virtual_tokens", number_of_count(adapter.virtual_tokens));
    if (adapter.encoder_hidden_size > 0) {
      set(config, "encoder_hidden_size", number_of_count(adapter.encoder_hidden_size));
    }
    return config;
  }
  if (!scales) {
    set(config, "r", number_of_count(adapter.rank));
    set(config, names.dropout, literal_of(plain_decimal(adapter.dropout)));
  }
  if (adapter.kind == AdapterKind::dora) set(config, "use_dora", flag_of(true));
  set(config, "target_modules", words_of_list(adapter.targets));
  if (scales) set(config, "feedforward_modules", words_of_list(adapter.scaled_inputs));
  if (!adapter.whole_modules.empty()) {
    set(config, "modules_to_save", words_of_list(adapter.whole_modules));
  }
  if (!scales) set(config, "bias", word_of("none"));
  return config;
}

/// Refuses what of FSDP and DDP neither accelerate's nor the Trainer's arguments say.
std::optional<Diagnostic> check_sharing(const Job& job) {
  const auto& fsdp = job.parallelism.fsdp;
  if (fsdp &&
      (fsdp->version != 2 || fsdp->replicate != 1 || fsdp->reshard == Reshard::all_but_last)) {
    return not_written_yet(kProgram, "parallelism.fsdp", text_of_key(job, "parallelism.fsdp"),
                           "what is written: version 2, reshard_after_forward true or false, no "
                           "replicas of the shards");
  }
  const auto replicas = sharding_as<ReplicasOfDdp>(job);
  if (replicas && replicas->buckets.gradient_as_bucket_view) {
    return no_word_for(kProgram, "parallelism.ddp", text_of_key(job, "parallelism.ddp"),
                       "the Trainer's DDP copies gradients into its buckets");
  }
  return std::nullopt;
}

Checked<ExportedJob> write_files(const Job& job) {
  if (const auto refused = check_sharing(job)) return *refused;
  const LoadedTypes* types = find_types(job);
  if (types == nullptr) {
    std::string known;
    for (const LoadedTypes& row : types_of(job)) {
      known += (known.empty() ? "" : ", ") + std::string(row.recipe);
    }
    return no_word_for(kProgram, "training.precision", job.training->recipe.name,
                       "what it has, sharded so: " + known);
  }
  const WordPair* optim = optim_of(job);
  if (optim == nullptr || keeps_wide_embeddings(job)) {
    return no_word_for(kProgram, "training.optimizer",
                       text_of_key(job, "training.optimizer.name") + ", " +
                           text_of_key(job, "training.optimizer.implementation"),
                       keeps_wide_embeddings(job)
                           ? "the Trainer keeps the embeddings' states in fp32"
                           : "its argument 'optim' has another, or none");
  }
  ExportedJob exported;
  exported.files = {{"accelerate.yaml", accelerate_text(job, *types)},
                    {"training_arguments.json", written_as_json(arguments_of(job, *optim, *types))},
                    {"model.json", written_as_json(model_of(job, *types))}};
  if (sharding_as<DeepSpeedZero>(job)) {
    exported.files.push_back({"ds_config.json", written_as_json(ds_config_of(job))});
  }
  if (job.model.adapter) {
    exported.files.push_back(
        {"adapter_config.json", written_as_json(config_of(*job.model.adapter))});
  }
  return exported;
}

std::optional<Diagnostic> mistake_of(const Job& job) {
  if (const auto other = other_framework(job, "accelerate", "transformers")) return other;
  if (row_of(job.training->implementation.loop).accelerate) return std::nullopt;
  return Diagnostic{Severity::error,
                    {},
                    "this job is a loop of PyTorch's around the model, and accelerate is written "
                    "for the Trainer",
                    "--set training.implementation.loop=trainer asks for that job"};
}

}  // namespace
}  // namespace memest::hugging_face::accelerate

namespace memest {

const ExportTarget& accelerate_export() {
  static const ExportTarget target = {.name = "accelerate",
                                      .program = hugging_face::accelerate::kProgram,
                                      .mistake = hugging_face::accelerate::mistake_of,
                                      .rows = hugging_face::accelerate::rows(),
                                      .write = hugging_face::accelerate::write_files};
  return target;
}

}  // namespace memest
