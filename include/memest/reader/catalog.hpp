// The catalog that memest ships: the files of configs/, carried inside the program. A
// look-up parses the files that it needs and no others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/gpu/ceiling.hpp"
#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/gpu/margin.hpp"
#include "memest/spec/optimizer.hpp"
#include "memest/spec/recipe.hpp"

namespace memest {

/// The GPU of a spec that names none.
inline constexpr const char* kDefaultGpu = "h100-sxm-80gb";

/// A GPU by slug, by alias (in letters of either case), or by the path of a file in the form of
/// configs/gpus. A path is what has a slash or ends in
/// `.yaml`; throws EnvironmentError where it cannot be opened.
Checked<GpuSpec> find_gpu(const std::string& name);
/// The GPU that a profile is of: its machine where it has one, else that of the catalog.
Checked<GpuSpec> gpu_of_profile(const GpuProfile& profile);
Checked<Recipe> find_recipe(const std::string& name);
Checked<Optimizer> find_optimizer(const std::string& name);

/// How far estimates of runs of `implementation` may be off: its own row of configs/residuals, or
/// that of all implementations; of each scale, or where there is none, of the one before. Those of
/// mixtures of experts where the model is one.
ScaledMargins find_margins(const Implementation& implementation, bool mixture = false);

/// The price that an estimate uses where the spec has none.
std::optional<Price> find_price(const std::string& gpu_slug);

/// The best published rates of a GPU type's kernels.
std::vector<Ceiling> find_ceilings(const std::string& gpu_slug);

// Everything, sorted by name.
std::vector<GpuSpec> all_gpus();
std::vector<Recipe> all_recipes();
std::vector<Optimizer> all_optimizers();
std::vector<Price> all_prices();

/// Names of the model presets.
std::vector<std::string> model_names();

}  // namespace memest
