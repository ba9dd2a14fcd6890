// A step that takes its batches from PyTorch's DataLoader: when it waits, and how many workers are
// enough. Every worker makes whole batches, in turn, and is asked for another when one of its own
// is taken.
#pragma once

#include <cstdint>
#include <optional>

#include "memest/spec/training.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// One step's demand on its rank's loader, in seconds.
struct BatchDemand {
  std::int64_t batches = 1;  ///< that a step takes
  double batch = 0;          ///< that one process needs to make one
  double step = 0;           ///< that the step takes where no batch is waited for
  double between = 0;        ///< of `step`, from one batch taken to the next; 0: all at once
};

/// Seconds of a step in the long run, batches waited for included.
double loaded_step(const DataLoading& loading, const BatchDemand& demand);

/// The fewest workers with which no batch is waited for; none where `most` are too few.
std::optional<std::int64_t> enough_workers(const DataLoading& loading, const BatchDemand& demand,
                                           std::int64_t most);

/// The most workers that a spec may write (src/reader/keys/training.cpp).
inline constexpr std::int64_t kMostWorkers = 10'000;

/// Samples a second that one rank's loader makes, and what its step asks for.
struct InputPipeline {
  DataLoading loading;
  double supply = 0;
  double demand = 0;
  double utilisation = 1;              ///< of the step's time, in which no batch is waited for
  Seconds wait;                        ///< of a step
  std::optional<std::int64_t> enough;  ///< workers; none where kMostWorkers are too few
};

/// Seconds of a step without waiting, those of its passes among them.
struct ComputedStep {
  double all = 0;
  double passes = 0;  ///< forward and backward
};

/// 0 where the training names no loader; else its `sample_seconds` are written.
double loading_wait(const TrainingSpec& training, const TakenBatches& taken,
                    const ComputedStep& computed);

/// As above, whole. `training.data` is present.
InputPipeline input_pipeline(const TrainingSpec& training, const TakenBatches& taken,
                             const ComputedStep& computed);

}  // namespace memest
