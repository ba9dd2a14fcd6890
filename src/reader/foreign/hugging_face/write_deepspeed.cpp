// A job's ds_config.json for DeepSpeed 0.19 (deepspeed/runtime/config.py, zero/config.py).
#include <algorithm>
#include <array>
#include <string>

#include "memest/spec/framework.hpp"
#include "reader/export/job_keys.hpp"
#include "reader/export/tree.hpp"
#include "reader/foreign/hugging_face/writing.hpp"

namespace memest::hugging_face {
namespace {

constexpr std::string_view kProgram = "DeepSpeed 0.19";

constexpr ExportRow kWholeModels[] = {
    held("parallelism.tensor", "1"),
    held("parallelism.pipeline", "1"),
    held("parallelism.context", "1"),
    held("parallelism.context_exchange", "ring"),
    held("parallelism.expert", "1"),
    held("parallelism.expert_tensor", "1"),
    held("parallelism.sequence", "false"),
    held("parallelism.schedule", "1f1b"),
    held("parallelism.virtual_stages", "1"),
    held("parallelism.first_stage_layers", "0"),
    held("parallelism.last_stage_layers", "0"),
    held("parallelism.account_for_embedding", "false"),
    held("parallelism.account_for_loss", "false"),
    held("parallelism.pipeline_layout", "none"),
    held("parallelism.distributed_optimizer", "false"),
    held("parallelism.overlap_grad_reduce", "false"),
    held("parallelism.overlap_param_gather", "false"),
    held("training.implementation.loss_parallel", "false"),
    held("training.implementation.layers", "local"),
    beside("training.implementation.masked_softmax_fusion"),
    beside("training.implementation.bias_gelu_fusion"),
    beside("training.implementation.bias_dropout_fusion"),
    beside("training.implementation.deepspeed"),
    beside("training.implementation.transformer_engine"),
    beside("training.implementation.transformers"),
    beside("training.implementation.torch"),
    beside("training.implementation.torchtitan"),
    beside("allocator"),
};

// The script that reads the file makes the model, its optimizer and its batches.
constexpr ExportRow kStep[] = {
    beside("training.seq_len"),
    written("training.micro_batch"),
    written("training.gradient_accumulation"),
    written("training.precision"),
    beside("training.optimizer.name"),
    beside("training.optimizer.implementation"),
    held("training.optimizer.in_backward", "false"),
    held("training.optimizer.exp_avg", "none"),
    held("training.optimizer.exp_avg_sq", "none"),
    held("training.optimizer.main_params", "none"),
    beside("training.recompute"),
    beside("training.offload_activations"),
    written("training.clip_gradients"),
    held("training.zero_grad", "set-to-none"),
    beside("training.hold_outputs"),
    beside("training.ema"),
    beside("training.use_cache"),
    beside("training.loss"),
    beside("training.completion_len"),
    beside("training.padding_free"),
    beside("training.dropout"),
    beside("training.adapter"),
    not_yet("training.float8", "none"),
    held("training.images", "none"),
    held("training.image_size", "none"),
    held("training.freeze", "none"),
    held("training.teacher", "none"),
    beside("training.data.workers"),
    beside("training.data.prefetch"),
    beside("training.data.pin_memory"),
    not_yet("compression", "none"),
    beside("training.implementation.loop"),
    beside("training.implementation.attention"),
    beside("training.implementation.loss"),
    beside("training.implementation.compile"),
    held("training.implementation.cuda_graph", "off"),
    held("training.implementation.token_dispatcher", "alltoall"),
    not_yet("training.implementation.liger", "none"),
    beside("parallelism.data"),
    written("parallelism.zero"),
    held("parallelism.ddp", "none"),
    written("parallelism.deepspeed"),
    held("parallelism.fsdp", "none"),
    written("parallelism.offload"),
};
constexpr std::span<const ExportRow> kRows[] = {kStep, kWholeModels};

/// Its own optimizers' names are enough for ZeRO; others are let in by a switch.
bool is_tested(std::string_view optimizer) {
  constexpr std::array<std::string_view, 4> kTested = {"adam", "adamw", "adagrad", "lion"};
  return std::ranges::find(kTested, optimizer) != kTested.end();
}

void write_offload(const HostOffload& offload, Value& zero) {
  const auto device = [&](std::string_view section, OffloadDevice where) {
    if (where == OffloadDevice::none) return;
    const std::string path(section);
    set(zero, path + ".device", word_of(name_of(where)));
    set(zero, path + ".pin_memory", flag_of(offload.pinned));
    if (where == OffloadDevice::nvme) {
      set(zero, path + ".nvme_path", word_of("FILL_IN: a folder on the node's drives"));
    }
  };
  device("offload_optimizer", offload.device_of_optimizer());
  device("offload_param", offload.device_of_parameters());
}

Value zero_of(const Job& job, const DeepSpeedZero& sharding) {
  const DeepSpeed& keys = sharding.settings;
  Value zero;
  set(zero, "stage", number_of_count(static_cast<std::int64_t>(sharding.stage)));
  set(zero, "reduce_bucket_size", number_of_count(keys.reduce_bucket_size));
  set(zero, "overlap_comm", flag_of(sharding.overlaps()));
  set(zero, "contiguous_gradients", flag_of(keys.contiguous_gradients));
  if (sharding.shards_weights()) {
    const auto size = [](std::int64_t elements, bool automatic) {
      return automatic ? word_of("auto") : number_of_count(elements);
    };
    set(zero, "stage3_prefetch_bucket_size", size(keys.prefetch_bucket_size, keys.auto_prefetch));
    set(zero, "stage3_param_persistence_threshold",
        size(keys.persistence_threshold, keys.auto_persistence));
    set(zero, "stage3_max_live_parameters", number_of_count(keys.max_live_parameters));
    set(zero, "stage3_max_reuse_distance", number_of_count(keys.max_reuse_distance));
    set(zero, "sub_group_size", number_of_count(keys.sub_group_size));
  }
  write_offload(job.parallelism.offload, zero);
  return zero;
}

std::optional<Diagnostic> mistake_of(const Job& job) {
  if (row_of(job.training->implementation.framework).sharer != Sharer::deepspeed) {
    return other_framework(job, "DeepSpeed", "transformers");
  }
  if (sharding_as<DeepSpeedZero>(job)) return std::nullopt;
  const bool fsdp = job.parallelism.fsdp.has_value();
  return Diagnostic{
      Severity::error,
      {},
      fsdp ? "this job is sharded by FSDP, not by DeepSpeed"
           : "DeepSpeed shards nothing of this job",
      fsdp ? "--to accelerate writes it, where its loop is the Trainer"
           : "--set parallelism.zero=2 on several GPUs, or with 'offload', asks it to"};
}

/// Keys of what the script that reads the file does by itself.
constexpr std::string_view kTold[] = {"training.seq_len",
                                      "training.optimizer.name",
                                      "training.optimizer.implementation",
                                      "training.recompute",
                                      "training.offload_activations",
                                      "training.adapter",
                                      "training.implementation.attention",
                                      "training.implementation.compile"};

std::string beside_text(const Job& job) {
  std::string text;
  for (const std::string_view own : kTold) {
    const std::string value = text_of_key(job, own);
    if (value == "none" || value == "off") continue;
    text += (text.empty() ? "" : ", ") + std::string(own.substr(own.find('.') + 1)) + ": " + value;
  }
  return text;
}

Checked<ExportedJob> write_files(const Job& job) {
  if (const auto refused = check_zero_precision(job, kProgram)) return *refused;
  const LaunchedRanks ranks = launched_ranks(job).value_or(LaunchedRanks{});
  std::string launch =
      environment_prefix(job) + "deepspeed --num_gpus " + std::to_string(ranks.of_node);
  if (ranks.nodes > 1) {
    launch += " --num_nodes " + std::to_string(ranks.nodes) + " --hostfile HOSTFILE";
  }
  launch += " TRAIN.py --deepspeed --deepspeed_config ds_config.json; the script itself decides: " +
            beside_text(job);
  return ExportedJob{{{"ds_config.json", written_as_json(ds_config_of(job))}}, launch};
}

constexpr ExportTarget kTarget = {.name = "deepspeed",
                                  .program = kProgram,
                                  .mistake = mistake_of,
                                  .rows = kRows,
                                  .write = write_files};

}  // namespace

Value ds_config_of(const Job& job) {
  const TrainingSpec& training = *job.training;
  Value config;
  set(config, "train_batch_size", number_of_count(job.global_batch()));
  set(config, "train_micro_batch_size_per_gpu", number_of_count(training.micro_batch));
  set(config, "gradient_accumulation_steps", number_of_count(training.gradient_accumulation));
  set(config, "gradient_clipping", literal_of(training.clip_gradients ? "1.0" : "0.0"));
  set(config, "bf16.enabled", flag_of(training.recipe.name != "fp32"));
  if (training.recipe.name == "mixed-fp32-grad") {
    set(config, "data_types.grad_accum_dtype", word_of("fp32"));
  }
  if (!is_tested(training.optimizer.name)) {
    set(config, "zero_allow_untested_optimizer", flag_of(true));
  }
  set(config, "zero_optimization", zero_of(job, *sharding_as<DeepSpeedZero>(job)));
  return config;
}

std::optional<Diagnostic> check_zero_precision(const Job& job, std::string_view program) {
  const std::string& name = job.training->recipe.name;
  if (name == "mixed" || name == "mixed-fp32-grad" || name == "fp32") return std::nullopt;
  return no_word_for(program, "training.precision", name,
                     "what its ZeRO has: mixed, mixed-fp32-grad, fp32");
}

std::span<const ExportRow> rows_of_whole_models() { return kWholeModels; }

}  // namespace memest::hugging_face

namespace memest {

const ExportTarget& deepspeed_export() { return hugging_face::kTarget; }

}  // namespace memest
