// Expert-parallel ranks among those that FSDP2 shards a model over.
#pragma once

#include "memest/spec/job.hpp"

namespace memest {

/// Whether the expert-parallel ranks lie within those that shard the weights of one replica.
[[nodiscard]] bool expert_ranks_divide_shards(const Parallelism& parallelism);

/// Whether each layer's experts are a unit of FSDP2 of their own, on a mesh of their own. The job
/// trains.
[[nodiscard]] bool has_experts_apart(const Job& job);

/// Whether columns of experts, where FSDP2 cuts those, lie in equal shares: it raises elsewhere.
[[nodiscard]] bool expert_columns_divide(const ModelSpec& model, const Parallelism& parallelism);

}  // namespace memest
