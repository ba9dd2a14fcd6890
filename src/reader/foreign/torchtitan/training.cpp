// torchtitan 0.2.2's keys of a step, of its ranks and of the kernels.
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "reader/foreign/torchtitan/torchtitan.hpp"
#include "reader/text/scalar.hpp"

namespace memest::torchtitan {
namespace {

/// The names that releases have for one key; the first is 0.2.2's.
using Names = std::span<const std::string_view>;

constexpr std::string_view kShard[] = {"parallelism.data_parallel_shard_degree",
                                       "training.data_parallel_shard_degree",
                                       "training.data_parallel_degree"};
constexpr std::string_view kReplicate[] = {"parallelism.data_parallel_replicate_degree",
                                           "training.data_parallel_replicate_degree"};
constexpr std::string_view kTensor[] = {"parallelism.tensor_parallel_degree",
                                        "training.tensor_parallel_degree"};
constexpr std::string_view kPipeline[] = {"parallelism.pipeline_parallel_degree",
                                          "experimental.pipeline_parallel_degree"};
constexpr std::string_view kContext[] = {"parallelism.context_parallel_degree",
                                         "experimental.context_parallel_degree"};
constexpr std::string_view kSchedule[] = {"parallelism.pipeline_parallel_schedule",
                                          "experimental.pipeline_parallel_schedule"};

std::int64_t degree(const ForeignImport& file, Names names, std::int64_t fallback = 1) {
  return file.count(file.written(names)).value_or(fallback);
}

/// Whether fully_shard cuts the model: -1 takes the ranks that the others leave.
bool is_sharded(const ForeignImport& file) {
  return degree(file, kShard, -1) != 1 || degree(file, kContext) > 1;
}

constexpr ScheduleName kSchedules[] = {
    {"1F1B", "1f1b"},
    {"GPipe", "gpipe"},
    {"Interleaved1F1B", "interleaved"},
    {"InterleavedZeroBubble", "zero-bubble"},
    {"ZBVZeroBubble", "zbv"},
    {"DualPipeV", "dualpipe-v"},
};

void write_pipeline(ForeignImport& file) {
  const std::string_view pipeline = file.written(kPipeline);
  if (degree(file, kPipeline) <= 1) return;
  file.write("parallelism.pipeline", file.text(pipeline), {pipeline});
  const std::string_view key = file.written(kSchedule);
  const std::string name = file.text(key, "1F1B");
  const auto* const row = std::ranges::find_if(kSchedules, [&name](const ScheduleName& candidate) {
    return is_same_word(candidate.foreign, name);
  });
  if (row == std::end(kSchedules)) {
    return file.refuse(key, "the schedule " + quote(name),
                       "known are 1F1B, GPipe, Interleaved1F1B, InterleavedZeroBubble, "
                       "ZBVZeroBubble and DualPipeV");
  }
  file.write("parallelism.schedule", row->own, {key});
  constexpr std::string_view kLayers = "parallelism.pipeline_parallel_layers_per_stage";
  const auto layers = file.count(kLayers);
  if (!layers || *layers < 1 || *layers > kMaxLayers) return;
  // pipeline_parallel.py: ceil((num_layers + 1 + 1) / layers_per_stage) stages over the ranks.
  const std::int64_t all = as_count(file.wrote("model.layers")).value_or(0) + 2;
  const std::int64_t stages = (all + *layers - 1) / *layers;
  if (stages % degree(file, kPipeline) != 0) {
    return file.mistake(
        kLayers,
        "these are " + std::to_string(stages) + " stages, which the pipeline's ranks do not divide",
        "the embedding and the head count as a layer each");
  }
  file.write("parallelism.virtual_stages", std::to_string(stages / degree(file, kPipeline)),
             {kLayers});
}

void write_data_ranks(ForeignImport& file) {
  const std::string_view shard = file.written(kShard);
  const std::string_view replicate = file.written(kReplicate);
  const std::int64_t replicas = degree(file, kReplicate);
  const std::int64_t shards = degree(file, kShard, -1);
  if (shards > 0) {
    std::int64_t ranks = 0;
    if (__builtin_mul_overflow(replicas, shards, &ranks)) ranks = replicas;
    file.write("parallelism.data", std::to_string(ranks), {shard, replicate});
  }
  if (!is_sharded(file)) {
    // parallelize.py: replicate(model, device_mesh=dp_mesh, bucket_cap_mb=100).
    if (replicas > 1) file.write("parallelism.ddp.bucket_mb", "100", {replicate});
    return;
  }
  constexpr std::string_view kReshard[] = {"parallelism.fsdp_reshard_after_forward",
                                           "training.fsdp_reshard_after_forward"};
  file.write("parallelism.fsdp.version", "2", {shard});
  if (replicas > 1) {
    file.write("parallelism.fsdp.replicate", std::to_string(replicas), {replicate});
  }
  const std::string_view reshard = file.written(kReshard);
  if (file.find(reshard) != nullptr) {
    file.write("parallelism.fsdp.reshard_after_forward", *file.find(reshard), reshard);
  }
}

bool has_converter(const ForeignImport& file, std::string_view name) {
  const Value* converters = file.find("model.converters");
  if (converters == nullptr) return false;
  // 0.1 takes a comma-separated text too.
  if (converters->kind == ValueKind::scalar) {
    return converters->text.find(name) != std::string::npos;
  }
  return std::ranges::any_of(converters->items,
                             [name](const Value& item) { return item.text == name; });
}

}  // namespace

std::span<const ScheduleName> schedule_names() { return kSchedules; }

void write_ranks(ForeignImport& file) {
  write_data_ranks(file);
  const std::string_view tensor = file.written(kTensor);
  if (degree(file, kTensor) > 1) {
    file.write("parallelism.tensor", file.text(tensor), {tensor});
    // parallelize.py: a plan of tensor parallelism is one of sequence parallelism too.
    file.write("parallelism.sequence", "true", {tensor});
    constexpr std::string_view kLossParallel[] = {"parallelism.disable_loss_parallel",
                                                  "training.disable_loss_parallel"};
    const std::string_view key = file.written(kLossParallel);
    file.write("training.implementation.loss_parallel", file.flag(key) ? "false" : "true",
               {key, tensor});
  }
  write_pipeline(file);
  const std::string_view context = file.written(kContext);
  if (degree(file, kContext) > 1) {
    file.write("parallelism.context", file.text(context), {context});
  }
  constexpr std::string_view kExpert = "parallelism.expert_parallel_degree";
  constexpr std::string_view kExpertTensor = "parallelism.expert_tensor_parallel_degree";
  if (file.count(kExpert).value_or(1) > 1) {
    file.write("parallelism.expert", file.text(kExpert), {kExpert});
    file.write("parallelism.expert_tensor", file.text(kExpertTensor, "1"), {kExpertTensor});
  }
  constexpr std::string_view kOffload = "training.enable_cpu_offload";
  if (file.flag(kOffload)) {
    file.write("parallelism.offload", "{optimizer: cpu, parameters: cpu}", {kOffload});
  }
}

void write_batch(ForeignImport& file) {
  const std::string_view local = file.written({"training.local_batch_size", "training.batch_size"});
  constexpr std::string_view kGlobal = "training.global_batch_size";
  const std::int64_t sequences = file.count(local).value_or(8);
  const std::int64_t global = file.count(kGlobal).value_or(-1);
  if (global > 0) file.write("training.global_batch", std::to_string(global), {kGlobal});
  if (degree(file, kPipeline) <= 1) {
    file.write("training.micro_batch", std::to_string(sequences), {local});
    return;
  }
  // A step's sequences of a rank are cut into micro-batches; 0.1 says into how many.
  const std::string_view key = file.written({"parallelism.pipeline_parallel_microbatch_size"});
  const std::string_view number = file.written({"parallelism.pipeline_parallel_microbatches",
                                                "experimental.pipeline_parallel_microbatches"});
  const std::int64_t parts = std::max<std::int64_t>(file.count(number).value_or(1), 1);
  const bool by_number = file.find(number) != nullptr;
  const std::int64_t size = by_number ? sequences / parts : file.count(key).value_or(1);
  file.write("training.micro_batch", std::to_string(size), {by_number ? number : key, local});
  if (global > 0 || size < 1) return;
  file.write("training.gradient_accumulation", std::to_string(sequences / size), {local});
}

void write_precision(ForeignImport& file) {
  constexpr std::string_view kType = "training.dtype";
  constexpr std::string_view kMixed = "training.mixed_precision_param";
  const std::string type = file.text(kType, "float32");
  const std::string mixed = file.text(kMixed, "bfloat16");
  // maybe_enable_amp enters autocast only without tensor and pipeline parallelism.
  const bool casts =
      is_sharded(file) || (degree(file, kTensor) == 1 && degree(file, kPipeline) == 1);
  const std::string_view own = type == "bfloat16"             ? "bf16"
                               : mixed == "bfloat16" && casts ? "amp-bf16"
                                                              : "fp32";
  file.write("training.precision", own, {kMixed, kType});
  // clip_grad_norm_ is called whatever the norm.
  file.write("training.clip_gradients", "true", {"training.max_norm"});
}

void write_recompute(ForeignImport& file) {
  const std::string_view key =
      file.written({"activation_checkpoint.mode", "activation_checkpoint.type"});
  constexpr std::string_view kOption = "activation_checkpoint.selective_ac_option";
  const std::string mode = file.text(key, "selective");
  const std::string option = file.text(kOption, "2");
  if (mode == "none" || mode == "full") return file.write("training.recompute", mode, {key});
  if (mode != "selective") {
    return file.refuse(key, "the recompute " + quote(mode), "known are none, full and selective");
  }
  if (option == "op") return file.write("training.recompute", "selective", {key, kOption});
  if (!integer_of(option)) {
    return file.mistake(kOption, "this is neither op nor a number of layers");
  }
  file.write("training.recompute", "{every: " + option + "}", {key, kOption});
}

void write_kernels(ForeignImport& file) {
  file.write("training.implementation.name", "torchtitan", {"model.name"});
  const std::string_view key = file.written({"compile.enable", "training.compile"});
  constexpr std::string_view kParts = "compile.components";
  if (!file.flag(key)) return;
  const Value* parts = file.find(kParts);
  const auto has = [parts](std::string_view part) {
    return parts == nullptr || std::ranges::any_of(parts->items, [part](const Value& item) {
             return item.text == part;
           });
  };
  if (!has("model")) return file.pass_over(kParts, "a loss is compiled with the layers alone");
  if (!has("loss")) file.pass_over(kParts, "the loss is compiled with the layers");
  file.write("training.implementation.compile", "blocks", {key});
}

void write_float8(ForeignImport& file) {
  for (const std::string_view other : {"mx", "quantize.linear.mx", "quantize.grouped_mm.mx"}) {
    if (has_converter(file, other)) {
      return file.refuse("model.converters", "training in MX formats");
    }
  }
  if (has_converter(file, "quantize.grouped_mm.float8")) {
    return file.refuse("model.converters", "a grouped product of experts in fp8");
  }
  const std::string_view old_key =
      file.written({"float8.enable_float8_linear", "training.enable_float8_linear"});
  const bool old = file.flag(old_key);
  const bool has = has_converter(file, "float8") || has_converter(file, "quantize.linear.float8");
  if (!has && !old) return;
  const Value* experts = file.find("float8.moe_fqns_prototype");
  if (experts != nullptr && !(experts->items.empty() && experts->text.empty())) {
    return file.refuse("float8.moe_fqns_prototype", "a grouped product of experts in fp8");
  }
  const std::string_view by = old ? old_key : "model.converters";
  const std::string_view recipe =
      file.written({"quantize.linear.float8.recipe_name", "float8.recipe_name"});
  file.write("training.float8.recipe", file.text(recipe, "tensorwise"), {recipe, by});
  const auto flag = [&file](std::string_view own, ForeignImport::Keys names) {
    const std::string_view key = file.written(names);
    if (file.flag(key)) file.write(own, "true", {key});
  };
  flag("training.float8.all_gather", {"quantize.linear.float8.enable_fsdp_float8_all_gather",
                                      "float8.enable_fsdp_float8_all_gather"});
  flag("training.float8.precompute_scales",
       {"quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
        "float8.precompute_float8_dynamic_scale_for_fsdp"});
  const std::string_view filter =
      file.written({"quantize.linear.float8.filter_fqns", "float8.filter_fqns"});
  const Value* names = file.find(filter);
  if (names == nullptr) return;
  if (names->kind == ValueKind::sequence) {
    return file.write("training.float8.filter_fqns", *names, filter);
  }
  file.write("training.float8.filter_fqns", "[" + names->text + "]", {filter});
}

}  // namespace memest::torchtitan
