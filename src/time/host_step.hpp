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

/// The layers of a pass around which Transformer Engine's offload copies (LayerOffload of memory):
/// in a stream of its own, beside the one that computes.
struct CopiedLayers {
  std::int64_t layers = 0;
  std::int64_t offloaded = 0;  ///< the first ones
  PassSeconds of_layer;        ///< each computes so long
  double leaving = 0;          ///< and its copy to the host takes so long
  double coming = 0;
};

/// Seconds that the computing stream waits for copies: layer L − N + i of the forward for the copy
/// of layer i, the backward of layer i for its own, which begins with that of layer L − 1 − N + i.
PassSeconds waits_for_copies(const CopiedLayers& copied);

/// One micro-step of such a model, whose layers take `passes` together. `graph` has its sizes
/// bound.
struct OffloadedModel {
  const Graph& graph;
  const TrainingSpec& training;
  PassSeconds passes;
};
/// Seconds that it waits so.
double offloaded_layer_seconds(const OffloadedModel& model, const GpuLaws& laws, Outlook outlook);

/// Why a job that offloads has no step time; empty where it has one.
std::optional<Unavailable> no_time_of_offload(const Job& job, const GpuLaws& laws);

}  // namespace memest
