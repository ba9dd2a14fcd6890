// `training.adapter`: what is trained instead of the model, and beside what no run of an adapter
// other than LoRA was recorded.
#pragma once

#include <optional>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/adapter.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Nothing where no adapter is trained. `weights`: the model's type; `parallel`: of Megatron's
/// layers; `unwritten`: the word of its `dtype` where it has none.
std::optional<Adapter> read_adapter(const Value& training, DType weights, bool parallel,
                                    std::string_view unwritten);

/// Refuses what is not recorded, at the key.
void check_adapters(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
