// `training.optimizer`: its states, whose implementation steps them, and in which types they are
// kept.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/training.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// `spec` has its implementation and its recipe.
void read_optimizer(const Value& training, TrainingSpec& spec, Diagnostics& diagnostics);
/// `spec` has the recipe of its linear layers too. Main parameters that the optimizer keeps itself
/// are the recipe's no more.
void read_optimizer_types(const Value& training, TrainingSpec& spec, Diagnostics& diagnostics);

}  // namespace memest
