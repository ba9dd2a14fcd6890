// The precision of a training beside `training.adapter`.
#pragma once

#include <optional>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/adapter.hpp"
#include "memest/spec/training.hpp"
#include "reader/job/read_training.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Reads the adapter and gives `spec`'s recipes the types of what it trains. Refuses a precision
/// that adapters have no record under.
std::optional<Adapter> adapt_recipe(const Value& training, const TrainingContext& context,
                                    TrainingSpec& spec, Diagnostics& diagnostics);

}  // namespace memest
