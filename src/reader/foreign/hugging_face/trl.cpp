// TRL's command line as a file: `trl sft --config FILE`, SFTConfig with ModelConfig and
// ScriptArguments of 1.x, and the names that releases before have.
#include <algorithm>

#include "reader/foreign/hugging_face/accelerate_keys.hpp"
#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/foreign/hugging_face/trainer_keys.hpp"

namespace memest::hugging_face::trl {
namespace {

constexpr std::string_view kModel = "model_name_or_path";
constexpr std::string_view kLength[] = {"max_length", "max_seq_length"};
constexpr LoraNames kLora = {.model = kModel,
                             .rank = "lora_r",
                             .rank_absent = "16",
                             .targets = "lora_target_modules",
                             .dropout = "lora_dropout",
                             .dropout_absent = "0.05",
                             .whole = "lora_modules_to_save",
                             .asking = "use_peft",
                             .dora = "use_dora"};

/// The weights' type: ModelConfig.dtype is float32; "auto" is that of the checkpoint.
std::optional<HalfType> loaded_type(const ForeignImport& file) {
  const std::string_view key = file.written({"dtype", "torch_dtype"});
  return weights_of(file.text(key, "float32"));
}

constexpr std::string_view kCodes = "load_in_4bit";

bool calls_flash_attn(const ForeignImport& file) {
  const std::string kernel = file.text("attn_implementation");
  return kernel == "flash_attention_2" || kernel == "kernels-community/flash-attn2";
}

/// sft_trainer.py: self.padding_free = args.padding_free or (args.packing and args.packing_strategy
/// in {"bfd", "bfd_split"}). Sequences that are cut anew ("wrapped") are as long as others.
void write_packing(ForeignImport& file) {
  constexpr std::string_view kPacking = "packing";
  constexpr std::string_view kStrategy = "packing_strategy";
  constexpr std::string_view kFree = "padding_free";
  const bool packs = file.flag(kPacking);
  const bool joins = packs && file.text(kStrategy, "bfd") != "wrapped";
  if (file.flag(kFree) && packs && !joins) {
    return file.refuse(kFree, "sequences that are cut anew and lie as one", "leave it out");
  }
  const std::string_view key = joins ? kPacking : kFree;
  if (joins || file.flag(kFree)) {
    if (!calls_flash_attn(file)) {
      return file.refuse(key, "documents that lie as one without the flash-attn package",
                         "set attn_implementation to flash_attention_2: other attention makes a "
                         "mask of all tokens by all tokens");
    }
    file.write("training.padding_free", "true", {key});
  } else if (packs) {
    file.drop(kPacking, "sequences that are cut anew are as long as others");
  }
  if (packs) file.drop(kStrategy, "it says how sequences are filled");
  if (!joins) return;
  file.note("each packed sequence counts as one document",
            "--set training.padding_free.documents=N for N in each, between which no token looks");
}

/// SFTTrainer is known on one GPU, as replicas, in FSDP2, and in DeepSpeed of bf16, with nothing on
/// the host. The spec says it: write_precision() and write_sharing() stand before.
bool follows_sharing(const ForeignImport& file) {
  const auto is = [&file](std::string_view own, std::string_view text) {
    const Value* const value = file.wrote(own);
    return value != nullptr && value->text == text;
  };
  if (file.wrote("parallelism.offload") != nullptr) return false;
  if (has_deepspeed(file)) return is("training.precision", "mixed");
  if (!has_fsdp(file)) return true;
  return is("parallelism.fsdp.version", "2") && file.wrote("parallelism.fsdp.replicate") == nullptr;
}

/// Whether SFTTrainer's own loss is known: of release 1.16 beside what runs of it were recorded
/// with (reader/frameworks/trainer.cpp).
bool follows_loss(const ForeignImport& file) {
  constexpr std::string_view kOthers[] = {"use_liger", "use_liger_kernel", "torch_compile",
                                          "activation_offloading",
                                          "gradient_checkpointing_kwargs.use_reentrant"};
  const bool sdpa = file.text("attn_implementation", "sdpa") == "sdpa";
  const bool fp16 =
      loaded_type(file) == HalfType::fp16 || autocast_of(file, HalfType::bf16) == HalfType::fp16;
  const bool older = file.find("max_seq_length") != nullptr;
  const bool whole = file.find("lora_modules_to_save") != nullptr;
  // utils.py, get_quantization_config: codes are multiplied in the type of the weights, which is
  // autocast's where that is bf16.
  const bool wide_codes = file.flag(kCodes) && loaded_type(file) != HalfType::bf16;
  return follows_sharing(file) && (sdpa || calls_flash_attn(file)) && !fp16 && !older && !whole &&
         !wide_codes &&
         std::ranges::none_of(kOthers, [&file](std::string_view key) { return file.flag(key); });
}

void write_job(ForeignImport& file) {
  const bool adapts = file.flag("use_peft");
  write_hub_model(file, kModel);
  write_batch(file, "per_device_train_batch_size", "8");
  write_length(file, kLength, "1024");
  // base_config.py: bf16 unless fp16 is asked for.
  write_precision(file, loaded_type(file), autocast_of(file, HalfType::bf16));
  write_packing(file);
  write_recompute(file, CheckpointHabit::always);
  write_optimizer(file, "optim");
  write_sharing(file, "2");
  const bool follows = follows_loss(file);
  write_loop(file, follows ? "sft" : "trainer");
  if (adapts) write_lora(file, kLora);
  if (file.flag(kCodes)) {
    write_codes(file, {kCodes, "bnb_4bit_quant_type", "use_bnb_nested_quant", "false",
                       "bnb_4bit_quant_storage", "uint8"});
    // TRL casts all that is trained beside codes to bf16.
    if (adapts && !follows) file.write(adapter_key(file, kLora, "dtype"), "model", {kCodes});
  }
  if (follows) {
    const bool some = file.flag("completion_only_loss") || file.flag("assistant_only_loss");
    file.note(
        "it is read as a file of trl sft: every sequence counts as full, and every token has a "
        "loss",
        some
            ? "--set training.completion_len=N for a loss of so many tokens of each sequence"
            : "--set training.implementation.loop=trainer for the model's loss, over whole logits");
    return;
  }
  file.note("it is read as a file of trl sft, whose own loss and metrics are not followed",
            "the loss is the model's, over whole logits; every sequence has the full length");
}

constexpr WordPair kAttentions[] = {{"eager", "eager"},
                                    {"sdpa", "sdpa"},
                                    {"flash_attention_2", "flash-2"},
                                    {"flash_attention_3", "flash-3"},
                                    {"flex_attention", "flex"},
                                    {"kernels-community/flash-attn2", "flash-2"},
                                    {"kernels-community/vllm-flash-attn3", "flash-3"}};
constexpr WordPair kLiger[] = {{"true", "true"}, {"false", ""}};
constexpr std::string_view kDeciding[] = {kModel,
                                          "max_length",
                                          "max_seq_length",
                                          "dtype",
                                          "torch_dtype",
                                          "use_peft",
                                          "lora_r",
                                          "lora_target_modules",
                                          "lora_dropout",
                                          "lora_modules_to_save",
                                          "use_dora",
                                          "load_in_4bit",
                                          "bnb_4bit_quant_type",
                                          "use_bnb_nested_quant",
                                          "bnb_4bit_quant_storage",
                                          "packing",
                                          "packing_strategy",
                                          "padding_free"};
constexpr auto kDecidingOwn = all_derived(kDeciding);
constexpr KeyRow kRows[] = {
    maps("attn_implementation", "training.implementation.attention", kAttentions),
    maps("use_liger", "training.implementation.liger", kLiger),
    refused_key("load_in_8bit", "false", "LLM.int8() under TRL's trainers"),
    refused_key("lora_target_parameters", "", "an adapter of a parameter that is no module's"),
    refused_key("activation_offloading", "false", "OffloadActivations of trl"),
    refused_key("use_unsloth", "false", "training by Unsloth"),
    refused_key("loss_type", "nll|chunked_nll", "another loss of SFTTrainer"),
    refused_key("router_aux_loss_coef", "", "a mixture's balancing loss"),
    not_followed("model_init_kwargs.*", "", "the model is loaded as its own keys say"),
    no_effect("lora_alpha", kAboutSchedule),
    no_effect("use_rslora", kAboutSchedule),
    no_effect("lora_task_type", kAboutRun),
    no_effect("model_revision", kAboutPaths),
    no_effect("model_code_revision", kAboutPaths),
    no_effect("trust_remote_code", kAboutRun),
    no_effect("use_fast_tokenizer", kAboutRun),
    no_effect("tokenizer_name_or_path", kAboutPaths),
    no_effect("gradient_checkpointing_use_reentrant", kAboutRun),
    no_effect("datasets", kAboutData),
    no_effect("dataset_kwargs.*", kAboutData),
    no_effect("dataset_mixer.*", kAboutData),
    no_effect("dataset_mixture.*", kAboutData),
    no_effect("benchmarks", kAboutEvaluation),
    no_effect("callbacks", kAboutLogging),
};
constexpr std::string_view kData[] = {"dataset_name",
                                      "dataset_config",
                                      "dataset_train_split",
                                      "dataset_test_split",
                                      "dataset_streaming",
                                      "dataset_text_field",
                                      "dataset_num_proc",
                                      "dataset_splits",
                                      "dataset_configs",
                                      "dataset_batch_size",
                                      "ignore_bias_buffers",
                                      "chat_template_path",
                                      "chat_template",
                                      "system_prompt",
                                      "eos_token",
                                      "pad_token",
                                      "truncation_mode",
                                      "shuffle_dataset",
                                      "pad_to_multiple_of",
                                      "eval_packing",
                                      "completion_only_loss",
                                      "assistant_only_loss",
                                      "preprocessing_num_workers",
                                      "num_proc",
                                      "streaming",
                                      "test_split_size",
                                      "auto_insert_empty_system_msg",
                                      "text_column"};
constexpr auto kDataOwn = all_no_effect(kData, kAboutData);

// Keys that no script of transformers has: what is only a Trainer's file has other defaults.
constexpr std::string_view kByPeft[] = {"use_peft"};
constexpr std::string_view kByMixer[] = {"dataset_mixer"};
constexpr std::string_view kByMixture[] = {"dataset_mixture"};
constexpr std::string_view kByPacking[] = {"packing", kModel, "learning_rate"};
constexpr std::string_view kByTextField[] = {"dataset_text_field"};
constexpr std::string_view kByCompletion[] = {"completion_only_loss"};
constexpr std::string_view kByAssistant[] = {"assistant_only_loss"};
constexpr std::string_view kByDataset[] = {"dataset_train_split"};
constexpr TellingKeys kTelling[] = {kByPeft,      kByMixer,      kByMixture,   kByPacking,
                                    kByTextField, kByCompletion, kByAssistant, kByDataset};
constexpr std::span<const KeyRow> kTables[] = {
    kDecidingRows, kFsdpRows,       kFsdpRest,       kTrainerRows,    kScheduleRows, kLoggingRows,
    kRunRows,      kCheckpointRows, kEvaluationRows, kDataRows,       kWorkerRows,   kSeedRows,
    kDecidingOwn,  kRows,           kDataOwn,        kLaunchDeciding, kLaunchRows,   kLaunchRun,
    kZeroDeciding, kZeroRows,       kZeroRun,        kConfigRows};
constexpr Derivation kDerivations[] = {write_job};
constexpr Dialect kSft = {.name = "trl-sft",
                          .noun = "a config of trl sft",
                          .telling = kTelling,
                          .tables = kTables,
                          .derivations = kDerivations,
                          .takes = kTrainerTakes,
                          .references = kTrainerReferences};

// Trainers of preferences and of rewards: each runs a second model, or generates, within a step.
void refuse_preferences(ForeignImport& file) {
  const std::string_view key =
      file.written({"beta", "num_generations", "reward_funcs", "reward_model_path", "ref_model",
                    "precompute_ref_log_probs", "max_completion_length", "max_prompt_length"});
  file.refuse(key, "training by preferences or rewards (TRL's DPO, GRPO, KTO, PPO and others)",
              "supervised fine-tuning (trl sft) of the same model is known");
}
constexpr KeyRow kAnyRow[] = {no_effect("*", kAboutRun)};
constexpr std::span<const KeyRow> kAnyTable[] = {kAnyRow};
constexpr std::string_view kByBeta[] = {"beta", kModel};
constexpr std::string_view kByLogProbs[] = {"precompute_ref_log_probs"};
constexpr std::string_view kByGenerations[] = {"num_generations", kModel};
constexpr std::string_view kByRewards[] = {"reward_funcs"};
constexpr std::string_view kByRewardModel[] = {"reward_model_path"};
constexpr std::string_view kByCompletions[] = {"max_completion_length"};
constexpr std::string_view kByPrompts[] = {"max_prompt_length", kModel};
constexpr TellingKeys kPreferenceTelling[] = {
    kByBeta, kByLogProbs, kByGenerations, kByRewards, kByRewardModel, kByCompletions, kByPrompts};
constexpr Derivation kRefusal[] = {refuse_preferences};
constexpr Dialect kPreferences = {.name = "trl-preferences",
                                  .noun = "a config of TRL's preference trainers",
                                  .telling = kPreferenceTelling,
                                  .tables = kAnyTable,
                                  .derivations = kRefusal,
                                  .takes = kTrainerTakes};

}  // namespace
}  // namespace memest::hugging_face::trl

const memest::Dialect& memest::trl_sft_dialect() { return hugging_face::trl::kSft; }
const memest::Dialect& memest::trl_preferences_dialect() { return hugging_face::trl::kPreferences; }
