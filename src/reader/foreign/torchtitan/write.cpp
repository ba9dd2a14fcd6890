// A job as torchtitan 0.2.2's TOML (torchtitan/config/job_config.py): every key that decides memory
// or time, whether it is the default or not.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "memest/reader/read_job.hpp"
#include "memest/spec/framework.hpp"
#include "reader/export/job_keys.hpp"
#include "reader/export/target.hpp"
#include "reader/export/tree.hpp"
#include "reader/foreign/torchtitan/torchtitan.hpp"

namespace memest::torchtitan {
namespace {

constexpr std::string_view kName = "torchtitan";
constexpr std::string_view kProgram = "torchtitan 0.2.2";

constexpr ExportRow kStep[] = {
    written("training.seq_len"),
    written("training.micro_batch"),
    written("training.gradient_accumulation"),
    held("training.precision", "amp-bf16|fsdp2-bf16|bf16|fp32"),
    held("training.optimizer.name", "adamw|adam"),
    written("training.optimizer.implementation"),
    held("training.optimizer.in_backward", "false"),
    held("training.optimizer.exp_avg", "none"),
    held("training.optimizer.exp_avg_sq", "none"),
    held("training.optimizer.main_params", "none"),
    written("training.recompute"),
    held("training.offload_activations", "none"),
    held("training.clip_gradients", "true"),
    held("training.zero_grad", "set-to-none"),
    held("training.hold_outputs", "false"),
    held("training.ema", "false"),
    held("training.use_cache", "false"),
    held("training.loss", "cross-entropy"),
    held("training.completion_len", "none"),
    held("training.padding_free", "false"),
    held("training.dropout", "own"),
    held("training.adapter", "none"),
    written("training.float8"),
    held("training.images", "none"),
    held("training.image_size", "none"),
    held("training.freeze", "none"),
    held("training.teacher", "none"),
    held("training.data.workers", "0"),
    held("training.data.prefetch", "none"),
    held("training.data.pin_memory", "false"),
    held("compression", "none"),
    held("training.implementation.loop", "torchtitan"),
    held("training.implementation.attention", "sdpa"),
    held("training.implementation.loss", "upcast"),
    written("training.implementation.loss_parallel"),
    held("training.implementation.layers", "local"),
    beside("training.implementation.masked_softmax_fusion"),
    beside("training.implementation.bias_gelu_fusion"),
    beside("training.implementation.bias_dropout_fusion"),
    beside("training.implementation.deepspeed"),
    beside("training.implementation.transformer_engine"),
    beside("training.implementation.transformers"),
    beside("training.implementation.torch"),
    held("training.implementation.torchtitan", "0.2.2"),
    written("training.implementation.compile"),
    held("training.implementation.cuda_graph", "off"),
    held("training.implementation.token_dispatcher", "alltoall"),
    held("training.implementation.liger", "none"),
};

constexpr ExportRow kRanks[] = {
    written("parallelism.data"),
    written("parallelism.tensor"),
    written("parallelism.pipeline"),
    written("parallelism.context"),
    held("parallelism.context_exchange", "ring"),
    written("parallelism.expert"),
    written("parallelism.expert_tensor"),
    written("parallelism.sequence"),
    written("parallelism.schedule"),
    written("parallelism.virtual_stages"),
    held("parallelism.first_stage_layers", "0"),
    held("parallelism.last_stage_layers", "0"),
    held("parallelism.account_for_embedding", "false"),
    held("parallelism.account_for_loss", "false"),
    held("parallelism.pipeline_layout", "none"),
    written("parallelism.zero"),
    held("parallelism.ddp", "none|{bucket_mb: 100, gradient_as_bucket_view: false}"),
    held("parallelism.deepspeed", "none"),
    written("parallelism.fsdp"),
    written("parallelism.offload"),
    held("parallelism.distributed_optimizer", "false"),
    held("parallelism.overlap_grad_reduce", "false"),
    held("parallelism.overlap_param_gather", "false"),
    beside("allocator"),
};
constexpr std::span<const ExportRow> kRows[] = {kStep, kRanks};

/// The flavor of these sizes; none, or one of flex_attention alone, where the registry has none.
const Flavor* flavor_of(const ModelSpec& model) {
  const Flavor* of_sizes = nullptr;
  for (const Flavor& row : flavors()) {
    const std::string keys =
        "model: {" + std::string(row.sizes) + ", " + std::string(row.traits) + "}\n";
    const Checked<Job> job =
        read_job(std::make_shared<const SourceText>(SourceText{"flavor.yaml", keys}));
    if (!job.ok() || !differing_part(job.value().model, model).empty()) continue;
    if (!row.flex) return &row;
    of_sizes = &row;
  }
  return of_sizes;
}

void write_model(const Flavor& flavor, Value& tree) {
  set(tree, "model.name", word_of(flavor.model));
  set(tree, "model.flavor", word_of(flavor.flavor));
  set(tree, "model.hf_assets_path", word_of("FILL_IN: the folder of the tokenizer"));
}

void write_training(const Job& job, Value& tree) {
  const TrainingSpec& training = *job.training;
  const bool is_pipeline = job.parallelism.pipeline > 1;
  const std::string& precision = training.recipe.name;
  set(tree, "optimizer.name", word_of(training.optimizer.name == "adam" ? "Adam" : "AdamW"));
  set(tree, "optimizer.implementation", word_of(name_of(training.optimizer_implementation)));
  // Under a pipeline a step's sequences of a rank are one local batch, cut into micro-batches.
  const std::int64_t local =
      training.micro_batch * (is_pipeline ? training.gradient_accumulation : 1);
  set(tree, "training.local_batch_size", number_of_count(local));
  set(tree, "training.global_batch_size", number_of_count(job.global_batch()));
  set(tree, "training.seq_len", number_of_count(training.seq_len));
  set(tree, "training.max_norm", literal_of("1.0"));
  set(tree, "training.dtype", word_of(precision == "bf16" ? "bfloat16" : "float32"));
  set(tree, "training.mixed_precision_param",
      word_of(precision == "fp32" ? "float32" : "bfloat16"));
  set(tree, "training.mixed_precision_reduce", word_of("float32"));
  set(tree, "training.enable_cpu_offload", flag_of(job.parallelism.offload.any()));
}

/// pipelining's names for the schedules.
std::string_view schedule_of(Schedule schedule) {
  const auto names = schedule_names();
  const auto row = std::ranges::find(names, name_of(schedule), &ScheduleName::own);
  return row == names.end() ? std::string_view() : row->foreign;
}

void write_pipeline(const Job& job, Value& tree) {
  const Parallelism& ranks = job.parallelism;
  set(tree, "parallelism.pipeline_parallel_degree", number_of_count(ranks.pipeline));
  if (ranks.pipeline <= 1) return;
  set(tree, "parallelism.pipeline_parallel_schedule", word_of(schedule_of(ranks.schedule)));
  set(tree, "parallelism.pipeline_parallel_microbatch_size",
      number_of_count(job.training->micro_batch));
  const std::int64_t usual = has_chunks(ranks.schedule)
                                 ? row_of(job.training->implementation.framework).stages_of_rank
                                 : 1;
  if (ranks.virtual_stages == usual) return;
  // ceil((layers + 2) / layers_per_stage) stages: the fewest layers that make no more of them.
  const std::int64_t stages = ranks.pipeline * ranks.virtual_stages;
  const auto& decoder = std::get<DecoderSpec>(job.model.architecture);
  const std::int64_t layers = (decoder.layers() + 2 + stages - 1) / stages;
  set(tree, "parallelism.pipeline_parallel_layers_per_stage", number_of_count(layers));
}

void write_ranks(const Job& job, Value& tree) {
  const Parallelism& ranks = job.parallelism;
  const std::int64_t replicas = ranks.fsdp ? ranks.fsdp->replicate : ranks.data;
  const auto degree = [&tree](std::string_view name, std::int64_t count) {
    set(tree, "parallelism." + std::string(name), number_of_count(count));
  };
  degree("data_parallel_replicate_degree", replicas);
  degree("data_parallel_shard_degree", ranks.data / replicas);
  if (ranks.fsdp) {
    set(tree, "parallelism.fsdp_reshard_after_forward", word_of(name_of(ranks.fsdp->reshard)));
  }
  degree("tensor_parallel_degree", ranks.tensor);
  set(tree, "parallelism.disable_loss_parallel",
      flag_of(!job.training->implementation.loss_parallel));
  set(tree, "parallelism.enable_async_tensor_parallel", flag_of(false));
  degree("context_parallel_degree", ranks.context);
  set(tree, "parallelism.context_parallel_rotate_method", word_of("allgather"));
  write_pipeline(job, tree);
  degree("expert_parallel_degree", ranks.expert);
  if (ranks.expert > 1) {
    degree("expert_tensor_parallel_degree", ranks.expert_tensor.value_or(1));
  }
}

/// Nothing where torchtitan has a word for it.
std::optional<Diagnostic> write_recompute(const Recompute& recompute, Value& tree) {
  const std::string text = spec_value_of(recompute);
  const auto* every = std::get_if<EveryRecompute>(&recompute);
  if (every == nullptr && text != "none" && text != "full" && text != "selective") {
    return no_word_for(kProgram, "training.recompute", text,
                       "what it has: none, full, selective, {every: N}");
  }
  set(tree, "activation_checkpoint.mode", word_of(every == nullptr ? text : "selective"));
  if (every != nullptr) {
    set(tree, "activation_checkpoint.selective_ac_option", word_of(std::to_string(every->every)));
  } else if (text == "selective") {
    set(tree, "activation_checkpoint.selective_ac_option", word_of("op"));
  }
  set(tree, "activation_checkpoint.early_stop", flag_of(false));
  return std::nullopt;
}

void write_compile(const Job& job, Value& tree) {
  const bool compiles = job.training->implementation.compile != CompileScope::off;
  set(tree, "compile.enable", flag_of(compiles));
  if (compiles) set(tree, "compile.components", words_of_list({"model", "loss"}));
  const auto& float8 = job.training->float8;
  if (!float8) return;
  set(tree, "model.converters", words_of_list({"quantize.linear.float8"}));
  set(tree, "quantize.linear.float8.recipe_name", word_of(name_of(float8->recipe)));
  set(tree, "quantize.linear.float8.enable_fsdp_float8_all_gather", flag_of(float8->all_gather));
  set(tree, "quantize.linear.float8.filter_fqns", words_of_list(float8->filter_fqns));
}

std::string head_of(const Job& job) {
  return "# For " + std::string(kProgram) +
         ". What decides neither memory nor time stands at its defaults: data, learning rate,\n"
         "# number of steps, checkpoints. Fill in model.hf_assets_path.\n"
         "#\n"
         "#   " +
         environment_prefix(job) + torchrun_of(job) +
         " \\\n"
         "#     -m torchtitan.train --job.config_file train.toml\n\n";
}

Checked<ExportedJob> write_files(const Job& job) {
  const Flavor* flavor = flavor_of(job.model);
  if (flavor == nullptr || flavor->flex) {
    const bool flex = flavor != nullptr;
    return Diagnostic{
        Severity::error,
        {},
        flex ? std::string(kProgram) +
                   " trains this model with flex_attention alone, which is not "
                   "available yet"
             : "no flavor of " + std::string(kProgram) + "'s registry has this model's sizes",
        flex ? "its flavor is " + std::string(flavor->model) + " " + std::string(flavor->flavor)
             : "its registry is of llama3, qwen3 and deepseek_v3: `memest export llama-3-8b` has "
               "one",
        true};
  }
  Value tree;
  write_model(*flavor, tree);
  write_training(job, tree);
  write_ranks(job, tree);
  if (const auto refused = write_recompute(job.training->recompute, tree)) return *refused;
  write_compile(job, tree);
  return ExportedJob{{{"train.toml", head_of(job) + written_as_toml(tree)}}};
}

std::optional<Diagnostic> mistake_of(const Job& job) { return other_framework(job, kName, kName); }

constexpr ExportTarget kTarget = {.name = kName,
                                  .program = kProgram,
                                  .mistake = mistake_of,
                                  .rows = kRows,
                                  .write = write_files,
                                  .whole = true};

}  // namespace
}  // namespace memest::torchtitan

namespace memest {

const ExportTarget& torchtitan_export() { return torchtitan::kTarget; }

}  // namespace memest
