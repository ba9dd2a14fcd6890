// A step as a Trainer's arguments decide it.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/text/scalar.hpp"

namespace memest::hugging_face {
namespace {

struct TypeName {
  std::string_view name;
  HalfType type;
};
constexpr TypeName kTypeNames[] = {
    {"float32", HalfType::none},  {"fp32", HalfType::none}, {"torch.float32", HalfType::none},
    {"bfloat16", HalfType::bf16}, {"bf16", HalfType::bf16}, {"torch.bfloat16", HalfType::bf16},
    {"float16", HalfType::fp16},  {"fp16", HalfType::fp16}, {"torch.float16", HalfType::fp16},
};

struct Recipe16 {
  HalfType weights;
  HalfType autocast;
  std::string_view recipe;  ///< empty: memest has none
};
constexpr Recipe16 kRecipes[] = {
    {HalfType::none, HalfType::none, "fp32"},          {HalfType::none, HalfType::bf16, "amp-bf16"},
    {HalfType::none, HalfType::fp16, "amp-fp16"},      {HalfType::bf16, HalfType::none, "bf16"},
    {HalfType::bf16, HalfType::bf16, "bf16-autocast"}, {HalfType::fp16, HalfType::none, "fp16"},
};

// training_args.py: OptimizerNames. The Trainer's SGD has no momentum.
constexpr WordPair kOptimizers[] = {
    {"adamw_torch", "{name: adamw, implementation: foreach}"},
    {"adamw_torch_fused", "{name: adamw, implementation: fused}"},
    {"adafactor", "adafactor"},
    {"sgd", "sgd"},
    {"adagrad", "adagrad"},
    {"rmsprop", "rmsprop"},
    {"adamw_bnb_8bit", "adamw-8bit"},
    {"adamw_8bit", "adamw-8bit"},
    {"paged_adamw_8bit", "paged-adamw-8bit"},
    {"paged_adamw_32bit", "paged-adamw"},
    {"paged_adamw", "paged-adamw"},
    {"lion_32bit", "lion"},
    {"lion_8bit", "lion-8bit"},
};

constexpr std::string_view kChecks[] = {"gradient_checkpointing", "activation_checkpointing"};
constexpr std::string_view kReentrant[] = {"gradient_checkpointing_kwargs.use_reentrant",
                                           "activation_checkpointing_kwargs.use_reentrant"};
constexpr std::string_view kTypeKeys[] = {"bf16",     "fp16",        "launch.mixed_precision",
                                          "dtype",    "torch_dtype", "pure_bf16",
                                          "bfloat16", "float16"};

/// A flag that some programs write as `auto`, on every GPU that memest knows.
bool is_on(const ForeignImport& file, std::string_view key) {
  const std::string word = file.text(key);
  return is_same_word(word, "true") || is_same_word(word, "auto");
}

void write_compile(ForeignImport& file) {
  const std::string_view key =
      file.written({"torch_compile", "torch_compile_backend", "torch_compile_mode"});
  const bool on = file.find(key) != nullptr && !is_same_word(file.text(key), "false");
  if (on) file.refuse(key, "torch.compile of a whole model", "leave it out");
  const std::string_view dynamo =
      file.written({"launch.dynamo_config.dynamo_backend", "launch.dynamo_backend"});
  const std::string backend = file.text(dynamo, "no");
  if (is_same_word(backend, "no")) return;
  constexpr std::string_view kRegional = "launch.dynamo_config.dynamo_use_regional_compilation";
  if (!is_same_word(backend, "inductor"))
    return file.refuse(dynamo, "torch.compile by another backend than Inductor");
  if (!file.flag(kRegional)) return file.refuse(dynamo, "torch.compile of a whole model");
  file.write("training.implementation.compile", "blocks", {dynamo, kRegional});
}

void write_liger(ForeignImport& file) {
  constexpr std::string_view kOn = "use_liger_kernel";
  if (!file.flag(kOn)) return;
  file.write("training.implementation.liger", "true", {kOn});
  for (const std::string_view part :
       {"rope", "rms_norm", "swiglu", "geglu", "cross_entropy", "fused_linear_cross_entropy"}) {
    const std::string key = "liger_kernel_config." + std::string(part);
    if (file.find(key) == nullptr) continue;
    file.write("training.implementation.liger." + std::string(part), file.text(key), {key});
  }
}

}  // namespace

std::string whole(const std::string& text) {
  const auto number = number_of(text);
  constexpr double kExact = 9e15;
  if (!number || *number != std::floor(*number) || std::abs(*number) > kExact) return text;
  return std::to_string(static_cast<std::int64_t>(*number));
}

void write_batch(ForeignImport& file, std::string_view batch, std::string_view absent) {
  file.write("training.micro_batch", file.text(batch, absent), {batch});
  constexpr std::string_view kSteps = "gradient_accumulation_steps";
  constexpr std::string_view kLaunched = "launch.deepspeed_config.gradient_accumulation_steps";
  constexpr std::string_view kGathered = "launch.gradient_accumulation_steps";
  const std::string_view key = file.written({kSteps, kLaunched, kGathered});
  const std::string steps = file.text(key, "1");
  if (is_same_word(steps, "auto")) return;
  file.write("training.gradient_accumulation", steps, {key});
}

void write_length(ForeignImport& file, std::span<const std::string_view> names,
                  std::string_view absent) {
  const std::string_view key = file.written(names);
  const Value* null = find_path(file.root(), key);
  if (file.find(key) == nullptr && (absent.empty() || null != nullptr)) return;
  file.write("training.seq_len", file.text(key, absent), {key});
}

HalfType autocast_of(const ForeignImport& file, HalfType absent) {
  if (is_on(file, "bf16")) return HalfType::bf16;
  if (is_on(file, "fp16")) return HalfType::fp16;
  const std::string launched = file.text("launch.mixed_precision", "no");
  if (is_same_word(launched, "bf16")) return HalfType::bf16;
  if (is_same_word(launched, "fp16")) return HalfType::fp16;
  return file.find("bf16") == nullptr ? absent : HalfType::none;
}

std::optional<HalfType> weights_of(std::string_view name) {
  const auto* const row = std::ranges::find_if(
      kTypeNames, [name](const TypeName& candidate) { return is_same_word(candidate.name, name); });
  return row == std::end(kTypeNames) ? std::nullopt : std::optional(row->type);
}

void write_precision(ForeignImport& file, std::optional<HalfType> weights, HalfType autocast) {
  constexpr std::string_view kLaunched = "launch.mixed_precision";
  if (is_same_word(file.text(kLaunched), "fp8"))
    return file.refuse(kLaunched, "fp8 under accelerate");
  if (autocast != HalfType::none) file.drop("tf32", "no large product is in fp32");
  if (has_deepspeed(file)) return write_zero_precision(file, autocast);
  const HalfType loaded = weights.value_or(HalfType::none);
  const auto* const row = std::ranges::find_if(kRecipes, [&](const Recipe16& candidate) {
    return candidate.weights == loaded && candidate.autocast == autocast;
  });
  const std::string_view key = file.written(kTypeKeys);
  if (row == std::end(kRecipes)) {
    return file.refuse(key, "autocast over weights in fp16, or in another 16-bit type",
                       "weights in bf16 and autocast in bf16 are known");
  }
  file.write("training.precision", row->recipe, {key});
  for (const std::string_view other : kTypeKeys) {
    if (is_on(file, other) || weights_of(file.text(other)))
      file.credit(other, "training.precision");
  }
  if (weights || (has_fsdp(file) && autocast != HalfType::none)) return;
  file.note("no file says in which type the weights are loaded: fp32 is taken",
            autocast == HalfType::bf16 ? "--set training.precision=bf16-autocast where it is bf16"
                                       : "--set training.precision=bf16 where it is bf16");
}

void write_recompute(ForeignImport& file, CheckpointHabit habit) {
  constexpr std::string_view kWrapped[] = {"launch.fsdp_config.fsdp_activation_checkpointing",
                                           "fsdp_config.activation_checkpointing",
                                           "fsdp_config.fsdp_activation_checkpointing"};
  const std::string_view wrapped = file.written(kWrapped);
  if (has_fsdp(file) && file.flag(wrapped)) {
    return file.write("training.recompute", "full", {wrapped});
  }
  const std::string_view key = file.written(kChecks);
  const std::string_view kind = file.written(kReentrant);
  const bool on = file.flag(key, habit == CheckpointHabit::always);
  if (!on) return file.write("training.recompute", "none", {key});
  const bool reentrant = file.flag(kind, habit == CheckpointHabit::asked_reentrant);
  file.write("training.recompute", reentrant ? "{full: {reentrant: true}}" : "full", {key, kind});
}

std::span<const WordPair> trainer_optimizers() { return kOptimizers; }

void write_optimizer(ForeignImport& file, std::string_view key) {
  const std::string name = file.text(key, "adamw_torch_fused");
  const auto* const row = std::ranges::find_if(
      kOptimizers, [&name](const WordPair& pair) { return is_same_word(pair.foreign, name); });
  if (row == std::end(kOptimizers)) {
    std::vector<std::string> known;
    for (const WordPair& pair : kOptimizers) known.emplace_back(pair.foreign);
    return file.refuse(key, "the optimizer " + quote(name), "known are " + joined(known));
  }
  if (file.find("ds.optimizer.type") != nullptr) {
    return file.drop(key, "DeepSpeed's file names the optimizer");
  }
  file.write("training.optimizer", row->own, {key});
}

void write_loop(ForeignImport& file, std::string_view loop) {
  file.write("training.implementation.name", "transformers", {"the Trainer"});
  file.write("training.implementation.loop", loop, {"the Trainer"});
  constexpr std::string_view kNorm = "max_grad_norm";
  constexpr std::string_view kLaunched = "launch.deepspeed_config.gradient_clipping";
  const std::string_view key = file.written({kNorm, kLaunched});
  const auto norm = number_of(file.text(key, "1.0"));
  file.write("training.clip_gradients", norm && *norm <= 0 ? "false" : "true", {key});
  write_liger(file);
  write_compile(file);
}

}  // namespace memest::hugging_face
