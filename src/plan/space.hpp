// The space of a search: which settings are tried, in the order in which equals are preferred.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/job.hpp"

namespace memest {

/// A micro-batch with the accumulation that it implies.
struct BatchChoice {
  std::int64_t micro_batch = 1;
  std::int64_t gradient_accumulation = 1;
};

/// Ascending; empty where the global batch cannot be divided so. `job`'s batch is that of the file.
std::vector<BatchChoice> batch_choices(const Job& job, std::int64_t gpus);

/// none, selective, full; or the file's own. A recompute that would save nothing is left out.
std::vector<Recompute> recompute_choices(const Job& job);

/// 0 to 3; 0 alone on one GPU, 3 alone where the recipe lives in shards; or the file's own.
std::vector<ZeroStage> zero_choices(const Job& job, std::int64_t gpus);

}  // namespace memest
