// The space of a search: which settings are tried, in the order in which equals are preferred.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/spec/job.hpp"
#include "memest/spec/parallel/sharing.hpp"

namespace memest {

/// A micro-batch with the micro-steps that it implies.
struct BatchChoice {
  std::int64_t micro_batch = 1;
  std::int64_t gradient_accumulation = 1;
};

/// The choices of `job`'s framework over the layout's replicas, or the file's own, the least first:
/// DDP and DeepSpeed's ZeRO with what each offloads, FSDP2 in any number of replicas, Megatron's
/// distributed optimizer.
std::vector<Sharing> sharing_choices(const Job& job, const Parallelism& layout);

/// Ascending; empty where the global batch cannot be divided over the data-parallel ranks. `job`'s
/// batch is that of the file. Left out: several sequences on ranks that divide each of them. Half
/// of both, on twice the replicas, has the same tokens on every rank and fewer messages.
std::vector<BatchChoice> batch_choices(const Job& job, const Parallelism& layout);

/// none, selective, full; or the file's own. A recompute that would save nothing is left out.
std::vector<Recompute> recompute_choices(const Job& job);

/// Every way in which `job`'s framework lays its model over so many GPUs: tensor ranks within a
/// node, context ranks, stages, their order, expert ranks, and what is sharded over
/// the data-parallel ranks. Sizes that the model does not divide by are left to the lowering, which
/// names them. Values that the file wrote are kept. The least split first.
std::vector<Parallelism> layout_choices(const Job& job, std::int64_t gpus);

}  // namespace memest
