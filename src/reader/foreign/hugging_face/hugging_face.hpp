// The job of a Hugging Face Trainer, whichever program's file describes it: what its arguments,
// the launcher's file and DeepSpeed's decide together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reader/foreign/dialect.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"

namespace memest::hugging_face {

/// A 16-bit type, or none.
enum class HalfType : std::uint8_t { none, bf16, fp16 };

// The model.

/// As below, of the model that is called `name` on the Hub.
void write_named_model(ForeignImport& file, std::string_view key, const std::string& name);
/// The preset that has the sizes of the model that `key` names, or the config beside the file.
void write_hub_model(ForeignImport& file, std::string_view key);
/// The config in the section `config`.
void write_config(ForeignImport& file);
/// The `model_type` of the config beside the file, or of the model that is called `name` on the
/// Hub; empty where no preset has its sizes.
std::string type_of_model(const ForeignImport& file, std::string_view name);
/// Names of the linear layers of a block of the model: all, or those that peft takes by itself.
std::optional<std::string> linear_layers(const ForeignImport& file, std::string_view model,
                                         bool all);

// The step.

void write_batch(ForeignImport& file, std::string_view batch, std::string_view absent);
/// Tokens of a sequence; a length that is written as none decides nothing.
void write_length(ForeignImport& file, std::span<const std::string_view> names,
                  std::string_view absent);
/// The type that the forward is cast to: by the file's own flags, else the launcher's.
HalfType autocast_of(const ForeignImport& file, HalfType absent = HalfType::none);
/// Type of the weights by the name that transformers and PyTorch have for it; none for another.
std::optional<HalfType> weights_of(std::string_view name);
/// The recipe of weights loaded in `weights` (of nothing: no file says it) and cast to `autocast`.
void write_precision(ForeignImport& file, std::optional<HalfType> weights, HalfType autocast);
/// How a program checkpoints where nothing is written.
enum class CheckpointHabit : std::uint8_t {
  asked,           ///< where it is asked to, without reentrance
  always,          ///< unless it is told not to
  asked_reentrant  ///< where it is asked to, reentrant
};
void write_recompute(ForeignImport& file, CheckpointHabit habit);
/// TrainingArguments.optim, each as `training.optimizer`.
std::span<const WordPair> trainer_optimizers();
void write_optimizer(ForeignImport& file, std::string_view key);
/// Clipping, Liger's kernels, torch.compile and the loop.
void write_loop(ForeignImport& file, std::string_view loop = "trainer");

/// Adapters of peft, and the weights below them.
struct LoraNames {
  std::string_view model;
  std::string_view rank;
  std::string_view rank_absent;
  std::string_view targets;
  bool all_absent = false;  ///< all linear layers where no target is written; else peft's choice
  bool all = false;         ///< all linear layers, whatever else is written
  std::string_view dropout;
  std::string_view dropout_absent;
  std::string_view whole;   ///< modules that are trained in full
  std::string_view asking;  ///< the key that asks for an adapter
  std::string_view dora;    ///< the key that makes it DoRA
};
void write_lora(ForeignImport& file, const LoraNames& names);
/// The section `peft`, an adapter_config.json, where there is one.
void write_peft(ForeignImport& file);
/// Names of modules, of a list or of a text with commas; empty where a pattern stands for them.
std::string names_of_modules(const Value& value);
/// The adapter's `key` in a spec: "training.adapter.lora.rank".
std::string adapter_key(const ForeignImport& file, const LoraNames& names, std::string_view key);

/// Weights as codes of 4 bits below the adapter.
struct CodeNames {
  std::string_view asking;
  std::string_view type;
  std::string_view nested;          ///< whether the scales are codes too
  std::string_view nested_absent;   ///< "true"
  std::string_view storage;         ///< the type that codes are packed in; empty: no key says it
  std::string_view storage_absent;  ///< "bfloat16"
};
void write_codes(ForeignImport& file, const CodeNames& names);

// The ranks, and how they share.

bool has_deepspeed(const ForeignImport& file);
bool has_fsdp(const ForeignImport& file);
/// The ranks and how they share: `version_absent` is the FSDP that the program takes.
void write_sharing(ForeignImport& file, std::string_view version_absent);
/// ZeRO, its buckets and its offload; what it says of the batch and contradicts the Trainer's.
void write_zero(ForeignImport& file);
/// The recipe of DeepSpeed's engine, which casts the weights itself.
void write_zero_precision(ForeignImport& file, HalfType autocast);

/// A number of the file without its exponent or fraction: "5e8" is 500000000; itself where it is
/// none.
std::string whole(const std::string& text);

}  // namespace memest::hugging_face
