// Megatron-core's demands on a job, and the parts of Megatron-core that memest has.
#pragma once

#include <optional>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Refuses, at the key that asks for it, what the implementation megatron does not run, and what
/// only it does where another runs. `root` is the spec.
void check_megatron(const Value& root, const Job& job, Diagnostics& diagnostics);

/// Whether adapters are Megatron-Bridge's, of Megatron's own linear layers.
bool adapts_parallel_layers(const Implementation& implementation);
/// Refuses an adapter that Megatron-Bridge does not train so.
void check_megatron_adapter(const Value& root, const Job& job, Diagnostics& diagnostics);

/// Refuses results that are thrown away and made again where Megatron has none.
void check_megatron_recompute(const Value& root, const Job& job, Diagnostics& diagnostics);

/// Refuses layers of multi-token prediction where Megatron does not train them.
void check_predictions(const Value& root, const Job& job, Diagnostics& diagnostics);

/// Refuses CUDA graphs of what Megatron does not capture.
void check_cuda_graphs(const Value& root, const Job& job, Diagnostics& diagnostics);

/// Refuses a dispatcher of tokens where Megatron does not run it.
void check_token_dispatcher(const Value& root, const Job& job, Diagnostics& diagnostics);

/// Under Megatron 'fsdp' of version 2 is Megatron-FSDP, which is its ZeRO 3.
void share_by_megatron_units(Job& job);
/// Refuses what Megatron-FSDP does not run.
void check_megatron_units(const Value& root, const Job& job, Diagnostics& diagnostics);

/// Products in 8 or 4 bits, from training.float8 (null: not written) and the precision; nothing
/// where all are in 16.
std::optional<TeLinears> read_te_linears(const Value* float8, const Recipe& recipe,
                                         Diagnostics& diagnostics);
/// Names the precision of a job with such products, which may be said in two ways.
void name_precision(TrainingSpec& training);
/// Refuses keys of training.float8 that are Megatron's.
void refuse_te_keys(const Value& float8, Diagnostics& diagnostics);
/// Refuses products in 8 or 4 bits that the job's GPU, layers or sharing do not have.
void check_te_linears(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
