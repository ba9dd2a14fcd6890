// Data ranks: GPUs that hold the same part of a model and other shares of its states. Where one
// flat tensor of parameters is cut into equal shares, as Megatron's distributed optimizer, FSDP1
// and DeepSpeed's ZeRO 1 and 2 cut it, borders lie within parameters: each rank steps other pieces,
// of the same bytes in sum, which round to other blocks and leave other gaps. FSDP2 cuts every
// parameter by itself: of none does any rank hold more than the first, and what is gathered and
// reduced is padded to the first's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// How many there are whose shares may differ; 1 where all ranks step alike.
std::int64_t data_ranks_of(const Job& job);

/// Whose share the formulas have: the first's, in ZeRO 2 the last's.
std::int64_t data_rank_of_formulas(const Job& job);

/// The data ranks that are replayed of a stage: one of each kind, where these are not too many.
struct FollowedRanks {
  std::vector<std::int64_t>
      ranks;                    ///< those that stand out first, the first rank at the very front
  std::size_t outstanding = 1;  ///< how many of them stand out
  bool all = true;              ///< whether no kind is left out
};

/// Ranks of a kind step pieces of the same sizes in the same order. `graph` is the stage's. Throws
/// OverflowError.
FollowedRanks followed_data_ranks(const Graph& graph, const Job& job,
                                  std::int64_t pipeline_rank = 0);

}  // namespace memest
