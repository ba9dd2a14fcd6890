// Time that a step takes over PCIe and on the host where states, gradients or weights lie there.
#pragma once

#include <optional>

#include "memest/spec/job.hpp"
#include "memest/time/gpu_laws.hpp"
#include "memest/time/priced_model.hpp"
#include "time/laws/collectives.hpp"

namespace memest {

/// One rank's share of a model that offloads. Elements and bytes are of the rank's shards.
struct OffloadedPart {
  double weights = 0;          ///< elements
  double trained = 0;          ///< of them
  double optimizer_bytes = 0;  ///< that a step of the optimizer reads and writes
  double clipping_bytes = 0;
  double units = 1;  ///< that weights come in
  double micro_steps = 1;
  const TrainingSpec& training;
  const Parallelism& parallelism;
  std::int64_t gpus_per_node = 8;
  std::optional<BytesPerSecond> nvme = {};  ///< of a node; there where something lies on it
};

/// Seconds that the step waits.
struct HostSeconds {
  double transfers = 0;
  double optimizer = 0;
  double clipping = 0;
};

/// Gradients leave and offloaded weights come while passes run, so of those transfers what exceeds
/// the passes is waited for, and the last piece; stepped weights come back behind the optimizer.
/// The optimizer's bytes pass through the host's memory, which the node's ranks share.
HostSeconds host_seconds(const OffloadedPart& part, const PassSeconds& passes, const GpuLaws& laws,
                         Outlook outlook);

/// Seconds that one micro-step waits where its saved tensors lie on the host: save_on_cpu copies
/// each on the stream that computes, there and back. `graph` has its sizes bound.
double saved_tensor_seconds(const Graph& graph, const TrainingSpec& training, const GpuLaws& laws,
                            Outlook outlook);

/// Why a job that offloads has no step time; empty where it has one.
std::optional<Unavailable> no_time_of_offload(const Job& job, const GpuLaws& laws);

}  // namespace memest
