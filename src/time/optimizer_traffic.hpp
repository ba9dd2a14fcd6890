// Bytes that the optimizer step moves: it computes next to nothing, so its time is its traffic.
#pragma once

#include "memest/spec/model.hpp"
#include "memest/spec/training.hpp"

namespace memest {

/// Read and written by one step over all trainable parameters of `inventory`, and by the moving
/// average of all of them behind it.
double optimizer_bytes(const Inventory& inventory, const TrainingSpec& training);

/// Read and written to clip gradients by their norm, and to zero them where they stay allocated.
double gradient_upkeep_bytes(double trainable, const TrainingSpec& training);

}  // namespace memest
