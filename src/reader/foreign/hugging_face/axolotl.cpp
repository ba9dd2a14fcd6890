// axolotl's YAML (`axolotl train FILE`), of 0.19 and the names that releases before have.
#include <algorithm>
#include <array>
#include <string>

#include "reader/foreign/hugging_face/accelerate_keys.hpp"
#include "reader/foreign/hugging_face/axolotl_idle.hpp"
#include "reader/foreign/hugging_face/axolotl_keys.hpp"
#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/foreign/hugging_face/trainer_keys.hpp"
#include "reader/text/scalar.hpp"

namespace memest::hugging_face::axolotl {
namespace {

constexpr std::string_view kModel = "base_model";
constexpr std::string_view kAdapter = "adapter";
constexpr std::string_view kLength[] = {"sequence_len"};
constexpr LoraNames kLora = {.model = kModel,
                             .rank = "lora_r",
                             .rank_absent = "8",
                             .targets = "lora_target_modules",
                             .dropout = "lora_dropout",
                             .dropout_absent = "0.0",
                             .whole = "lora_modules_to_save",
                             .asking = kAdapter,
                             .dora = "peft_use_dora"};

/// utils/config, normalize_config: batch_size is what the steps that are not written follow from.
void write_steps(ForeignImport& file) {
  constexpr std::string_view kBatch = "batch_size";
  const auto batch = file.count(kBatch);
  const std::int64_t micro = file.count("micro_batch_size").value_or(1);
  if (!batch || micro < 1 || file.find("gradient_accumulation_steps") != nullptr) return;
  file.write("training.gradient_accumulation", std::to_string(*batch / micro), {kBatch});
}

struct AttentionFlag {
  std::string_view key;
  std::string_view own;
};
constexpr AttentionFlag kAttentionFlags[] = {
    {"flash_attention", "flash-2"}, {"sdp_attention", "sdpa"}, {"eager_attention", "eager"}};

void write_attention(ForeignImport& file) {
  for (const AttentionFlag& row : kAttentionFlags) {
    if (!file.flag(row.key)) continue;
    return file.write("training.implementation.attention", row.own, {row.key});
  }
}

/// core/builders/causal.py: with flash attention the batches of MultipackBatchSampler are one row
/// of micro_batch_size·sequence_len tokens, whose attention_mask is dropped; position_ids tell
/// where examples begin.
void write_packing(ForeignImport& file) {
  constexpr std::string_view kKey = "sample_packing";
  if (!file.flag(kKey)) return;
  if (!file.flag("flash_attention") && file.text("attn_implementation") != "flash_attention_2") {
    return file.refuse(kKey, "packing of examples without flash attention",
                       "set attn_implementation to flash_attention_2: other attention makes masks "
                       "of all tokens by all tokens");
  }
  file.write("training.padding_free", "true", {kKey});
  file.note("each packed sequence counts as one example",
            "--set training.padding_free.documents=N for N in each, between which no token looks");
}

/// utils/config, resolve_dtype: weights are loaded in the type that the forward is cast to; `full`
/// casts nothing.
void write_types(ForeignImport& file, bool adapts) {
  constexpr std::string_view kFull = "bf16";
  const bool full = is_same_word(file.text(kFull), "full");
  HalfType autocast = full ? HalfType::none : autocast_of(file, HalfType::bf16);
  if (file.flag("bfloat16")) autocast = HalfType::bf16;
  if (file.flag("float16") && autocast == HalfType::none) autocast = HalfType::fp16;
  const HalfType weights = full ? HalfType::bf16 : autocast;
  // loaders/model.py, _configure_embedding_dtypes: back in 16 bits for adapters and flash
  // attention.
  const bool mixes = weights != HalfType::none && !adapts && !has_deepspeed(file) &&
                     !has_fsdp(file) && !file.flag("flash_attention") &&
                     file.text("attn_implementation") != "flash_attention_2";
  if (mixes) {
    return file.refuse(file.written({kFull, "bfloat16", "fp16", kModel}),
                       "a model in 16 bits whose norms and embeddings axolotl keeps in fp32",
                       "it does so without adapters, FSDP, DeepSpeed and flash attention");
  }
  write_precision(file, weights, autocast);
}

void write_checkpoints(ForeignImport& file) {
  constexpr std::string_view kKey = "gradient_checkpointing";
  const std::string word = file.text(kKey, "false");
  if (!is_same_word(word, "true") && !is_same_word(word, "false")) {
    return file.refuse(kKey, "checkpointing by " + quote(word), "known are true and false");
  }
  write_recompute(file, CheckpointHabit::asked_reentrant);
}

struct LigerPart {
  std::string_view key;
  std::string_view own;
};
constexpr LigerPart kLigerParts[] = {
    {"liger_rope", "rope"},
    {"liger_rms_norm", "rms_norm"},
    {"liger_glu_activation", "swiglu"},
    {"liger_swiglu", "swiglu"},
    {"liger_cross_entropy", "cross_entropy"},
    {"liger_fused_linear_cross_entropy", "fused_linear_cross_entropy"},
};

void write_liger(ForeignImport& file) {
  constexpr std::string_view kOwn = "training.implementation.liger.";
  // The gate's function is the model's: gelu has a kernel of another name.
  const bool gelu = type_of_model(file, file.text(kModel)).starts_with("gemma");
  const auto own = [&](std::string_view part) {
    return std::string(kOwn) + std::string(part == "swiglu" && gelu ? "geglu" : part);
  };
  for (const std::string_view part : {"rope", "rms_norm", "swiglu", "fused_linear_cross_entropy"}) {
    file.write(own(part), "false", {"plugins"});
  }
  for (const LigerPart& part : kLigerParts) {
    if (file.flag(part.key)) file.write(own(part.own), "true", {part.key});
  }
}

void write_plugins(ForeignImport& file) {
  constexpr std::string_view kKey = "plugins";
  const Value* plugins = file.find(kKey);
  if (plugins == nullptr) return;
  const auto is_liger = [](const Value& item) {
    return item.text.find("integrations.liger") != std::string::npos;
  };
  const auto other = std::ranges::find_if_not(plugins->items, is_liger);
  if (other != plugins->items.end()) {
    return file.refuse(kKey, "axolotl's plugin " + quote(other->text), "known is Liger's");
  }
  if (!plugins->items.empty()) write_liger(file);
}

void write_adapter(ForeignImport& file) {
  constexpr std::string_view kLinear = "lora_target_linear";
  constexpr std::string_view kFour = "load_in_4bit";
  constexpr std::string_view kEight = "load_in_8bit";
  const std::string kind = file.text(kAdapter);
  if (kind.empty()) {
    for (const std::string_view bits : {kFour, kEight}) {
      if (file.flag(bits)) file.mistake(bits, "codes are trained by no adapter", "adapter: qlora");
    }
    return;
  }
  if (kind != "lora" && kind != "qlora") {
    return file.refuse(kAdapter, "the adapter " + quote(kind), "known are lora and qlora");
  }
  LoraNames names = kLora;
  names.all = file.flag(kLinear);
  write_lora(file, names);
  if (names.all) file.credit(kLinear, adapter_key(file, names, "targets"));
  if (file.flag(kEight)) file.write("compression.quantize.weights", "int8", {kEight});
  // loaders/model.py: bnb_4bit_quant_type nf4, bnb_4bit_use_double_quant True,
  // bnb_4bit_quant_storage bfloat16.
  if (file.flag(kFour)) {
    write_codes(file, {kFour, "bnb_4bit_quant_type", "nested", "true", "", "bfloat16"});
  }
}

void write_job(ForeignImport& file) {
  const bool adapts = file.find(kAdapter) != nullptr && !file.text(kAdapter).empty();
  if (file.find("rl") != nullptr && !file.text("rl").empty()) {
    return file.refuse("rl", "training by preferences or rewards (" + quote(file.text("rl")) + ")",
                       "supervised fine-tuning of the same model is known");
  }
  write_hub_model(file, kModel);
  write_batch(file, "micro_batch_size", "1");
  write_steps(file);
  write_length(file, kLength, "512");
  write_types(file, adapts);
  write_checkpoints(file);
  write_optimizer(file, "optimizer");
  write_attention(file);
  write_packing(file);
  write_loop(file);
  write_sharing(file, "1");
  write_plugins(file);
  write_adapter(file);
}

constexpr std::string_view kByModel[] = {kModel};
constexpr TellingKeys kTelling[] = {kByModel};
constexpr std::span<const KeyRow> kTables[] = {
    kFsdpRows,          kFsdpRest,           kAxolotlDeciding, kAxolotlRows, kAxolotlSchedule,
    kAxolotlIdle,       kAxolotlTold,        kAxolotlData,     kAxolotlRun,  kAxolotlLogging,
    kAxolotlEvaluation, kAxolotlCheckpoints, kWorkerRows,      kSeedRows,    kLaunchDeciding,
    kLaunchRows,        kLaunchRun,          kZeroDeciding,    kZeroRows,    kZeroRun,
    kConfigRows};
constexpr Derivation kDerivations[] = {write_job};
constexpr Dialect kDialect = {.name = "axolotl",
                              .noun = "an axolotl config",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations,
                              .takes = kTrainerTakes,
                              .references = kTrainerReferences};

}  // namespace
}  // namespace memest::hugging_face::axolotl

const memest::Dialect& memest::axolotl_dialect() { return hugging_face::axolotl::kDialect; }
