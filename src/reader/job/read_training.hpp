// `training` as a TrainingSpec, and what depends on how many ranks share the batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/model.hpp"
#include "memest/spec/parallel/parallelism.hpp"
#include "memest/spec/training.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The training is read against this. `model` is null where the model could not be read.
struct TrainingContext {
  const ModelSpec* model = nullptr;
  const Parallelism& parallelism;
};

/// A table of learned positions ends the sequence: `key` of `pass` is its length.
void check_positions(std::string_view key, const Value& pass, const ModelSpec* model,
                     Diagnostics& diagnostics);

struct ReadTraining {
  TrainingSpec spec;
  std::optional<Adapter> adapter;  ///< that is trained instead of the model
};

/// Nothing where a diagnostic says why.
std::optional<ReadTraining> read_training(const Value& training, const TrainingContext& context,
                                          Diagnostics& diagnostics);

}  // namespace memest
