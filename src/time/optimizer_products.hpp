// Matrix products of the optimizer step: what orthogonalizes (Muon) or whitens (Shampoo, SOAP) a
// matrix.
#pragma once

#include <vector>

#include "memest/spec/model.hpp"
#include "memest/spec/training.hpp"
#include "memest/time/work.hpp"

namespace memest {

/// Whether a step of `optimizer` multiplies matrices.
bool computes_products(const Optimizer& optimizer);

/// Products of one step over all trained matrices of `inventory`, alike ones together.
std::vector<OptimizerProduct> optimizer_products(const Inventory& inventory,
                                                 const TrainingSpec& training);

}  // namespace memest
