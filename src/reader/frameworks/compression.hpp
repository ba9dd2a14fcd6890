// `compression`: a model made smaller before it runs, and beside what that was recorded.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Takes away what `written` prunes of the model, and sets the layers that it factorises and those
/// whose weights it keeps as codes.
void read_compression(const Value& written, ModelSpec& model, Diagnostics& diagnostics);

/// `training.adapter.qlora`, which says that the weights below are codes; null: not written.
const Value* find_qlora(const Value& training);

/// The weights under the adapters of the spec's `training`, where those are QLoRA's.
void read_quantized_base(const Value& root, const FrameworkRow& framework, ModelSpec& model,
                         Diagnostics& diagnostics);

/// Refuses factorised layers and weights of codes beside what no run with them was recorded with.
void check_compression(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
