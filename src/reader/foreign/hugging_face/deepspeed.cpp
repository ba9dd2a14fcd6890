// DeepSpeed's JSON: ZeRO, its offload, its types, and what the Trainer has to say too.
#include <algorithm>
#include <array>
#include <string>

#include "reader/foreign/hugging_face/accelerate_keys.hpp"
#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/text/scalar.hpp"

namespace memest::hugging_face {
namespace {

constexpr std::string_view kStage = "ds.zero_optimization.stage";
constexpr std::string_view kLaunchedStage = "launch.deepspeed_config.zero_stage";
constexpr std::string_view kMicroBatch = "ds.train_micro_batch_size_per_gpu";
constexpr std::string_view kBatch = "ds.train_batch_size";
constexpr std::string_view kAccumulation = "ds.gradient_accumulation_steps";
constexpr std::string_view kClipping = "ds.gradient_clipping";
constexpr std::string_view kLaunchedSteps = "launch.deepspeed_config.gradient_accumulation_steps";
constexpr std::string_view kLaunchedClipping = "launch.deepspeed_config.gradient_clipping";

bool is_auto(const ForeignImport& file, std::string_view key) {
  return is_same_word(file.text(key), "auto");
}
/// Whether the file writes a value of its own there.
bool says(const ForeignImport& file, std::string_view key) {
  return file.find(key) != nullptr && !is_auto(file, key);
}

constexpr std::string_view kSubGroup = "parallelism.deepspeed.sub_group_size";

struct ZeroNumber {
  std::array<std::string_view, 2> keys;
  std::string_view own;
  bool third = false;  ///< of stage 3 alone
};
constexpr ZeroNumber kNumbers[] = {
    {{"ds.zero_optimization.reduce_bucket_size", "ds.zero_optimization.reduce_bucket_size"},
     "parallelism.deepspeed.reduce_bucket_size"},
    {{"ds.zero_optimization.stage3_prefetch_bucket_size",
      "ds.zero_optimization.prefetch_bucket_size"},
     "parallelism.deepspeed.stage3_prefetch_bucket_size",
     true},
    {{"ds.zero_optimization.stage3_param_persistence_threshold",
      "ds.zero_optimization.param_persistence_threshold"},
     "parallelism.deepspeed.stage3_param_persistence_threshold",
     true},
    {{"ds.zero_optimization.stage3_max_live_parameters",
      "ds.zero_optimization.max_live_parameters"},
     "parallelism.deepspeed.stage3_max_live_parameters",
     true},
    {{"ds.zero_optimization.stage3_max_reuse_distance", "ds.zero_optimization.max_reuse_distance"},
     "parallelism.deepspeed.stage3_max_reuse_distance",
     true},
    {{"ds.zero_optimization.sub_group_size", "ds.zero_optimization.sub_group_size"},
     kSubGroup,
     true},
};

/// DeepSpeed's examples write 1e14 for everything, and 0 for sub-groups of a parameter each.
std::string size_of(const std::string& text, bool is_sub_group) {
  constexpr double kBeyondAnyModel = 1e12;
  const auto number = number_of(text);
  if (number && *number > kBeyondAnyModel) return whole("1e12");
  return number && *number == 0 && is_sub_group ? "1" : whole(text);
}

void write_buckets(ForeignImport& file, bool third) {
  for (const ZeroNumber& row : kNumbers) {
    const std::string_view key = file.written(row.keys);
    if (file.find(key) == nullptr) continue;
    if (row.third && !third) {
      file.drop(key, "a choice of stage 3");
      continue;
    }
    file.write(row.own, size_of(file.text(key), row.own == kSubGroup), {key});
  }
  for (const std::string_view flag : {"overlap_comm", "contiguous_gradients"}) {
    const std::string key = "ds.zero_optimization." + std::string(flag);
    if (!says(file, key)) continue;
    file.write("parallelism.deepspeed." + std::string(flag), file.text(key), {key});
  }
}

/// Writes where a part lies, by the section of today or the legacy flag.
void write_device(ForeignImport& file, std::string_view own, ForeignImport::Keys keys,
                  std::string_view legacy) {
  const std::string_view key = file.written(keys);
  if (says(file, key) && !is_same_word(file.text(key), "none")) {
    return file.write(own, file.text(key), {key});
  }
  if (file.flag(legacy)) file.write(own, "cpu", {legacy});
}

void write_offload(ForeignImport& file) {
  write_device(file, "parallelism.offload.optimizer",
               {"ds.zero_optimization.offload_optimizer.device",
                "launch.deepspeed_config.offload_optimizer_device"},
               "ds.zero_optimization.cpu_offload");
  write_device(
      file, "parallelism.offload.parameters",
      {"ds.zero_optimization.offload_param.device", "launch.deepspeed_config.offload_param_device"},
      file.written(
          {"ds.zero_optimization.cpu_offload_params", "ds.zero_optimization.cpu_offload_param"}));
  const std::string_view pin = file.written({"ds.zero_optimization.offload_optimizer.pin_memory",
                                             "ds.zero_optimization.offload_param.pin_memory"});
  if (says(file, pin)) file.write("parallelism.offload.pin_memory", file.text(pin), {pin});
}

/// A number that DeepSpeed's file, or accelerate's, has beside the Trainer's own.
struct SharedNumber {
  std::string_view key;
  std::span<const std::string_view> trainer;
  std::string_view absent;  ///< the Trainer's default
};
constexpr std::string_view kTrainersBatch[] = {"per_device_train_batch_size", "micro_batch_size",
                                               "per_gpu_train_batch_size"};
constexpr std::string_view kTrainersSteps[] = {"gradient_accumulation_steps"};
constexpr std::string_view kTrainersNorm[] = {"max_grad_norm"};
constexpr SharedNumber kShared[] = {
    {kMicroBatch, kTrainersBatch, "8"},        {kAccumulation, kTrainersSteps, "1"},
    {kLaunchedSteps, kTrainersSteps, "1"},     {kClipping, kTrainersNorm, "1.0"},
    {kLaunchedClipping, kTrainersNorm, "1.0"},
};

/// Whether a Trainer runs: else DeepSpeed's numbers are the job's.
bool is_trained(const ForeignImport& file) {
  return std::ranges::any_of(file.root().members,
                             [](const Member& member) { return member.key_span.line > 0; });
}

/// transformers/integrations/deepspeed.py, fill_match: a number that differs is a mistake.
void check_shared(ForeignImport& file) {
  for (const SharedNumber& row : kShared) {
    if (!says(file, row.key)) continue;
    const std::string_view other = file.written(row.trainer);
    const std::string trainers = file.text(other, row.absent);
    const auto mine = number_of(file.text(row.key));
    const auto its = number_of(trainers);
    if (!mine || !its || *mine == *its) {
      file.drop(row.key, "it is the Trainer's '" + std::string(other) + "'");
      continue;
    }
    file.mistake(row.key,
                 "DeepSpeed's " + file.text(row.key) + " is not the Trainer's '" +
                     std::string(other) + "', " + trainers +
                     (file.find(other) == nullptr ? " by default" : ""),
                 "the Trainer refuses such a pair; 'auto' takes its value");
  }
}

/// The batch where no Trainer says it.
void write_own_batch(ForeignImport& file) {
  if (says(file, kMicroBatch)) {
    file.write("training.micro_batch", file.text(kMicroBatch), {kMicroBatch});
  }
  const auto batch = file.count(kBatch);
  const std::string_view accumulation = file.written({kAccumulation, kLaunchedSteps});
  const auto steps = file.count(accumulation);
  if (steps) file.write("training.gradient_accumulation", std::to_string(*steps), {accumulation});
  if (batch && steps) {
    file.pass_over(kBatch, "it says how many GPUs there are: --gpus N");
  } else if (batch) {
    file.write("training.global_batch", std::to_string(*batch), {kBatch});
  }
  const std::string_view clipping = file.written({kClipping, kLaunchedClipping});
  if (!says(file, clipping)) return;
  const auto norm = number_of(file.text(clipping));
  file.write("training.clip_gradients", norm && *norm > 0 ? "true" : "false", {clipping});
}

constexpr WordPair kZeroOptimizers[] = {
    {"Adam", "{name: adamw, implementation: fused}"},
    {"AdamW", "{name: adamw, implementation: fused}"},
};

void write_own_optimizer(ForeignImport& file) {
  constexpr std::string_view kName = "ds.optimizer.type";
  if (file.find(kName) == nullptr) return;
  const std::string name = file.text(kName);
  const auto* const row = std::ranges::find_if(
      kZeroOptimizers, [&name](const WordPair& pair) { return is_same_word(pair.foreign, name); });
  if (row == std::end(kZeroOptimizers)) {
    return file.refuse(kName, "DeepSpeed's optimizer " + quote(name), "known are Adam and AdamW");
  }
  file.write("training.optimizer", row->own, {kName});
}

}  // namespace

void write_zero(ForeignImport& file) {
  const bool has_file = file.find("ds") != nullptr;
  const std::string_view key = has_file ? kStage : file.written({kLaunchedStage});
  // accelerate/utils/dataclasses.py, DeepSpeedPlugin: stage 2 where nothing is written.
  const std::string stage = file.text(key, has_file ? "0" : "2");
  if (stage == "0") {
    return file.refuse(has_file ? kStage : kLaunchedStage, "DeepSpeed without ZeRO",
                       "stages 1 to 3 are known");
  }
  file.write("parallelism.zero", stage, {key, "launch.distributed_type", "deepspeed"});
  for (const std::string_view naming :
       {"deepspeed", "launch.deepspeed_config.deepspeed_config_file"}) {
    file.credit(naming, "parallelism.zero");
  }
  write_buckets(file, stage == "3");
  write_offload(file);
  write_own_optimizer(file);
  if (!is_trained(file)) return write_own_batch(file);
  check_shared(file);
  if (says(file, kBatch)) file.pass_over(kBatch, "it follows from the Trainer's and the ranks");
}

void write_zero_precision(ForeignImport& file, HalfType autocast) {
  constexpr std::string_view kFp16 = "ds.fp16.enabled";
  const std::string_view bf16 = file.written({"ds.bf16.enabled", "ds.bfloat16.enabled"});
  const bool trained = is_trained(file);
  for (const auto& [key, type] :
       {std::pair(bf16, HalfType::bf16), std::pair(kFp16, HalfType::fp16)}) {
    if (!trained || !says(file, key) || file.flag(key) == (autocast == type)) continue;
    const std::string word = type == HalfType::bf16 ? "bf16" : "fp16";
    return file.mistake(key,
                        "DeepSpeed's " + word + " is " + (file.flag(key) ? "on" : "off") +
                            ", and that of the Trainer is not",
                        "the Trainer refuses such a pair; 'auto' takes its value");
  }
  const bool in_bf16 = says(file, bf16) ? file.flag(bf16) : autocast == HalfType::bf16;
  const bool in_fp16 = says(file, kFp16) ? file.flag(kFp16) : autocast == HalfType::fp16;
  const std::string_view by = file.written({"bf16", "fp16", "launch.mixed_precision"});
  if (!in_bf16 && !in_fp16) return file.write("training.precision", "fp32", {bf16, by});
  constexpr std::string_view kSums = "ds.data_types.grad_accum_dtype";
  const std::string sums = file.text(kSums, "");
  const bool wide = is_same_word(sums, "fp32") || is_same_word(sums, "float32");
  const std::string_view key = says(file, in_bf16 ? bf16 : kFp16) ? (in_bf16 ? bf16 : kFp16) : by;
  file.write("training.precision", wide ? "mixed-fp32-grad" : "mixed", {key, kSums});
  for (const std::string_view one :
       {std::string_view("bf16"), std::string_view("launch.mixed_precision"), bf16}) {
    if (in_bf16) file.credit(one, "training.precision");
  }
  if (!in_fp16) return;
  file.pass_over(file.find(kFp16) != nullptr ? kFp16 : by,
                 "the types are bf16, whose tensors are as large");
}

namespace deepspeed {
namespace {

void write_alone(ForeignImport& file) {
  write_sharing(file, "1");
  // `auto` is the Trainer's, of whom no file is here.
  const bool says_one = says(file, "ds.bf16.enabled") || says(file, "ds.bfloat16.enabled") ||
                        says(file, "ds.fp16.enabled");
  if (says_one) write_zero_precision(file, HalfType::none);
}

constexpr std::string_view kBySection[] = {"zero_optimization"};
constexpr std::string_view kByBatch[] = {"train_micro_batch_size_per_gpu"};
constexpr std::string_view kByBf16[] = {"bf16.enabled"};
constexpr std::string_view kByFp16[] = {"fp16.enabled"};
constexpr TellingKeys kTelling[] = {kBySection, kByBatch, kByBf16, kByFp16};
constexpr std::span<const KeyRow> kTables[] = {kZeroDeciding, kZeroRows, kZeroRun};
constexpr Derivation kDerivations[] = {write_alone};
constexpr Dialect kDialect = {.name = "deepspeed",
                              .noun = "a DeepSpeed config",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations,
                              .section = "ds"};

}  // namespace
}  // namespace deepspeed
}  // namespace memest::hugging_face

const memest::Dialect& memest::deepspeed_dialect() { return hugging_face::deepspeed::kDialect; }
