// transformers' TrainingArguments as a file (HfArgumentParser), with the arguments that its example
// scripts have beside them.
#include "reader/foreign/hugging_face/accelerate_keys.hpp"
#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/foreign/hugging_face/peft_keys.hpp"
#include "reader/foreign/hugging_face/trainer_keys.hpp"

namespace memest::hugging_face::transformers {
namespace {

constexpr std::string_view kModel = "model_name_or_path";
constexpr std::string_view kLength[] = {"max_seq_length", "block_size", "model_max_length",
                                        "max_length", "max_source_length"};

void write_job(ForeignImport& file) {
  write_hub_model(file, kModel);
  write_batch(file, file.written({"per_device_train_batch_size", "per_gpu_train_batch_size"}), "8");
  write_length(file, kLength, "");
  const std::string_view type = file.written({"dtype", "torch_dtype"});
  write_precision(file, weights_of(file.text(type)), autocast_of(file));
  write_recompute(file, CheckpointHabit::asked);
  write_optimizer(file, "optim");
  write_loop(file);
  write_sharing(file, "2");
  write_peft(file);
}

constexpr WordPair kAttentions[] = {{"eager", "eager"},
                                    {"sdpa", "sdpa"},
                                    {"flash_attention_2", "flash-2"},
                                    {"flash_attention_3", "flash-3"},
                                    {"flex_attention", "flex"}};
constexpr KeyRow kModelRows[] = {
    derived(kModel),
    derived("max_seq_length"),
    derived("block_size"),
    derived("model_max_length"),
    derived("max_length"),
    derived("max_source_length"),
    derived("dtype"),
    derived("torch_dtype"),
    maps("attn_implementation", "training.implementation.attention", kAttentions),
    refused_key("config_overrides", "", "a model whose sizes are written over"),
    refused_key("model_type", "", "a model of a type's default sizes"),
    refused_key("use_peft", "false", "an adapter that a script of its own makes"),
    refused_key("use_lora", "false", "an adapter that a script of its own makes"),
    refused_key("predict_with_generate", "false", "evaluation by generate()"),
    not_followed("config_name", "", "the model's own config is taken"),
};
constexpr std::string_view kScriptWords[] = {"dataset_name",
                                             "dataset_config_name",
                                             "train_file",
                                             "validation_file",
                                             "test_file",
                                             "max_train_samples",
                                             "max_eval_samples",
                                             "max_predict_samples",
                                             "streaming",
                                             "overwrite_cache",
                                             "validation_split_percentage",
                                             "preprocessing_num_workers",
                                             "keep_linebreaks",
                                             "pad_to_max_length",
                                             "task_name",
                                             "text_column",
                                             "summary_column",
                                             "text_column_name",
                                             "line_by_line",
                                             "mlm_probability",
                                             "source_prefix",
                                             "trim_auto_config",
                                             "max_steps_per_epoch"};
constexpr auto kScriptRows = all_no_effect(kScriptWords, kAboutData);
constexpr std::string_view kPathWords[] = {
    "tokenizer_name", "cache_dir",      "use_fast_tokenizer", "model_revision",
    "token",          "use_auth_token", "trust_remote_code",  "low_cpu_mem_usage"};
constexpr auto kPathRows = all_no_effect(kPathWords, kAboutPaths);

constexpr std::string_view kByBatch[] = {"per_device_train_batch_size"};
constexpr std::string_view kByEpochs[] = {"output_dir", "num_train_epochs"};
constexpr std::string_view kByRate[] = {"output_dir", "learning_rate"};
constexpr std::string_view kByChecks[] = {"output_dir", "gradient_checkpointing"};
constexpr TellingKeys kTelling[] = {kByBatch, kByEpochs, kByRate, kByChecks};
constexpr std::span<const KeyRow> kTables[] = {
    kDecidingRows,   kFsdpRows,   kFsdpRest,       kTrainerRows,    kScheduleRows,
    kLoggingRows,    kRunRows,    kCheckpointRows, kEvaluationRows, kDataRows,
    kWorkerRows,     kSeedRows,   kModelRows,      kScriptRows,     kPathRows,
    kLaunchDeciding, kLaunchRows, kLaunchRun,      kZeroDeciding,   kZeroRows,
    kZeroRun,        kConfigRows, kPeftDeciding,   kPeftRows,       kPeftRun};
constexpr std::string_view kTakes[] = {"ds", "launch", "config", "peft"};
constexpr Derivation kDerivations[] = {write_job};
constexpr Dialect kDialect = {.name = "transformers",
                              .noun = "transformers' TrainingArguments",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations,
                              .takes = kTakes,
                              .references = kTrainerReferences};

}  // namespace
}  // namespace memest::hugging_face::transformers

const memest::Dialect& memest::transformers_dialect() {
  return hugging_face::transformers::kDialect;
}
