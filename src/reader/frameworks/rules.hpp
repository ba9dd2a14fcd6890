// Rules of a framework's own program, as data: what it refuses of a job, and where a spec asks for
// it.
#pragma once

#include <span>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// `section` and `key` are where a spec asks for it.
struct Rule {
  std::string_view section;
  std::string_view key;
  bool (*broken)(const Job&);
  const char* message;
  const char* hint;
};

/// One diagnostic for every rule of `rules` that `job`, which trains, breaks. `root` is the spec.
void check_rules(std::span<const Rule> rules, const Value& root, const Job& job,
                 Diagnostics& diagnostics);

/// Refuses, at the key that asks for it, what the implementation nanotron does not run.
void check_nanotron(const Value& root, const Job& job, Diagnostics& diagnostics);

/// Rules that hold for every pipeline schedule.
std::span<const Rule> pipeline_rules();

/// Recipes that one program alone runs.
std::span<const Rule> recipe_rules();

/// Refuses, at the key that asks for it, what torchtitan does not run. `root` is the spec.
void check_torchtitan(const Value& root, const Job& job, Diagnostics& diagnostics);
/// Says which layers torchtune's builders keep as torchao's codes, where the spec does not.
void settle_torchao_codes(ModelSpec& model);
/// Refuses, at the key that asks for it, what torchtune's recipes do not run.
void check_torchtune(const Value& root, const Job& job, Diagnostics& diagnostics);
/// Refuses, at the key that asks for it, what litgpt's finetune does not run.
void check_litgpt(const Value& root, const Job& job, Diagnostics& diagnostics);
/// Refuses, at the key that asks for it, what the Trainer does not run. `root` is the spec.
void check_trainer(const Value& root, const Job& job, Diagnostics& diagnostics);
/// Refuses what no run of TRL's trainers was recorded with. `root` is the spec.
void check_trl(const Value& root, const Job& job, Diagnostics& diagnostics);

/// Whether there is an adapter, and it is another than LoRA or trains modules in full.
bool adapts_otherwise_than_by_lora(const Job& job);

/// Whether every layer is recomputed by itself, or none.
bool recomputes_each_layer(const Recompute& recompute);

/// 0 where the model is no decoder.
std::int64_t decoder_layers_of(const Job& job);
std::int64_t mtp_layers_of(const Job& job);

}  // namespace memest
