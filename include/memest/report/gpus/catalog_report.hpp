// The shipped catalogs, with sources: the answers of `memest gpus`, `models`, `recipes` and
// `optimizers`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/model.hpp"
#include "memest/spec/optimizer.hpp"
#include "memest/spec/recipe.hpp"

namespace memest {

Report report_gpus(const std::vector<GpuSpec>& gpus, const std::vector<Price>& prices,
                   const Question& question = {});

/// Every fact of one GPU with its tag, source and note, and its prices.
Report report_gpu(const GpuSpec& gpu, const std::vector<Price>& prices);

struct NamedModel {
  std::string name;  ///< of the preset
  ModelSpec model;
  std::optional<Unavailable> missing;  ///< why nothing but its parameters is known
};
Report report_models(const std::vector<NamedModel>& models);

Report report_recipes(const std::vector<Recipe>& recipes);

Report report_optimizers(const std::vector<Optimizer>& optimizers);

}  // namespace memest
