#include "time/host_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "memest/diag/expect.hpp"
#include "memest/graph/saved_sizes.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "time/optimizer_products.hpp"

namespace memest {
namespace {

/// Bytes a second of all ranks of a node together that an optimizer's step on the host moves, by
/// the bytes that memest counts for it. The ends are published steps that differ by as much: a
/// host's threads, sockets and memory channels are in no spec.
struct HostRate {
  double fast;
  double expected;
  double slow;
};

/// DeepSpeedCPUAdam, 28 B a parameter: 10 B in 2.57 s (Ren et al. 2021, ZeRO-Offload, table 4, a
/// DGX-2), 11.6 B in 8.2 s (deepspeedai/DeepSpeed pull request 735), 6.7 B in about 16 s (LLaMA-7B
/// on 8 A800 with two Xeon 8358, ZeRO 3 with and without: gist chenyaofo/d4cd6a20).
constexpr HostRate kDeepSpeedAdam = {109e9, 39.6e9, 11.8e9};
/// torch.optim.Adam, 80 B a parameter: 10 B in 14.8 s, 11.6 B in 56 s (both as above), 1.35 B in
/// 21.8 s (deepspeedai/DeepSpeed issue 1635, one socket of ten cores).
constexpr HostRate kTorchAdam = {54e9, 16.6e9, 5.0e9};

double at(const HostRate& rate, Outlook outlook) {
  switch (outlook) {
    case Outlook::fast:
      return rate.fast;
    case Outlook::expected:
      return rate.expected;
    case Outlook::slow:
      return rate.slow;
  }
  unreachable("every outlook has a rate");
}

/// Bytes of one rank that cross PCIe.
struct Crossings {
  double gradients = 0;       ///< in every micro-step, to the host
  double last_gradients = 0;  ///< once a step
  double passes = 0;          ///< weights in every micro-step's forward, and in its backward
  double stepped = 0;         ///< weights once a step, behind the optimizer
};

/// DeepSpeed 0.19 sends reduced gradients in fp32 once a step, in the gradients' type too where it
/// keeps no whole ones (stage 3, and stage 2 that accumulates); FSDP2 in the gradients' type in
/// every micro-step. Offloaded weights come for both passes; others once stepped.
Crossings crossings_of(const OffloadedPart& part) {
  const Recipe& recipe = part.training.recipe;
  const Parallelism& parallelism = part.parallelism;
  const double weights = part.weights * static_cast<double>(size_of(recipe.weights));
  const double gradients = part.trained * static_cast<double>(size_of(recipe.gradients));
  Crossings crossings;
  if (parallelism.offload.parameters) crossings.passes = weights;
  const Sharding sharding = sharding_of(part.training, parallelism);
  if (units_of(sharding) != nullptr) {
    crossings.gradients = gradients;
    return crossings;
  }
  // Stepped on the device, offloaded weights go out; stepped on the host, others come in.
  // With both on the host, the step writes the very shards that the next forward gathers.
  if (parallelism.offload.optimizer != parallelism.offload.parameters) {
    crossings.stepped = weights;
  }
  if (!parallelism.offload.optimizer) return crossings;
  crossings.last_gradients = part.trained * static_cast<double>(size_of(DType::fp32));
  const ZeroStage stage = zero_stage_of(sharding);
  // async_accumulate_grad_in_cpu_via_gpu sends every micro-step's gradients; stage 1 sums them on
  // the device.
  const bool keeps_none = stage == ZeroStage::optimizer_gradients_weights ||
                          (stage == ZeroStage::optimizer_gradients && part.micro_steps > 1);
  if (keeps_none) crossings.gradients = gradients;
  return crossings;
}

/// Whether weights cross PCIe for the backward too; not under FSDP2 that keeps gathered weights.
bool comes_twice(const GatheredUnits* units) {
  return units == nullptr || units->reshard != Reshard::never;
}

/// A step reads weights, moments and gradients in fp32 from the drives and writes the first three
/// back, one sub-group behind the other (pipeline_read and pipeline_write are off); gradients were
/// written before. Offloaded weights come for both passes, and go once.
double nvme_seconds(const OffloadedPart& part, double sharing) {
  const HostOffload& offload = part.parallelism.offload;
  const auto fp32 = static_cast<double>(size_of(DType::fp32));
  constexpr double kTimesOverDrives = 8;  // four read, three and the gradients written
  constexpr double kTimesOfWeights = 3;
  double bytes = 0;
  if (offload.optimizer_on_nvme) bytes += kTimesOverDrives * fp32 * part.trained;
  if (offload.parameters_on_nvme) {
    bytes +=
        kTimesOfWeights * part.weights * static_cast<double>(size_of(part.training.recipe.weights));
  }
  return bytes * sharing / part.nvme->value();
}

/// Layer L − N + i of the forward waits until the copy of layer i has left.
double waits_for_leaving(const CopiedLayers& copied) {
  const std::int64_t kept = copied.layers - copied.offloaded;
  double waits = 0;
  double now = 0;     // of the computing stream
  double copies = 0;  // of the other one
  std::vector<double> left(static_cast<std::size_t>(copied.offloaded));
  for (std::int64_t layer = 0; layer < copied.layers; ++layer) {
    if (layer >= kept) {
      const double wait = std::max(0.0, left[static_cast<std::size_t>(layer - kept)] - now);
      waits += wait;
      now += wait;
    }
    const double begun = now;
    now += copied.of_layer.forward;
    if (layer >= copied.offloaded) continue;
    // Each tensor's event lets its copy begin as soon as it is there; the last one ends the layer.
    copies = std::max(std::max(copies, begun) + copied.leaving, now);
    left[static_cast<std::size_t>(layer)] = copies;
  }
  return waits;
}

/// The backward of layer i waits for its copy, which begins with layer L − 1 − N + i.
double waits_for_coming(const CopiedLayers& copied) {
  const std::int64_t kept = copied.layers - copied.offloaded;
  double waits = 0;
  double now = 0;
  double copies = 0;
  std::vector<double> back(static_cast<std::size_t>(copied.offloaded));
  for (std::int64_t layer = copied.layers - 1; layer >= 0; --layer) {
    const std::int64_t next = layer + 1 - kept;
    if (next >= 0 && next < copied.offloaded) {
      copies = std::max(copies, now) + copied.coming;
      back[static_cast<std::size_t>(next)] = copies;
    }
    if (layer < copied.offloaded) {
      const double wait = std::max(0.0, back[static_cast<std::size_t>(layer)] - now);
      waits += wait;
      now += wait;
    }
    now += copied.of_layer.backward;
  }
  return waits;
}

}  // namespace

HostSeconds host_seconds(const OffloadedPart& part, const PassSeconds& passes, const GpuLaws& laws,
                         Outlook outlook) {
  const Parallelism& parallelism = part.parallelism;
  const auto crossing = [&](TransferPath path, double bytes) {
    if (bytes == 0) return 0.0;
    return laws.price(TransferShape{path, std::llround(bytes)}).at(outlook);
  };
  const Crossings crossings = crossings_of(part);
  const double leaving = crossing(TransferPath::device_to_host_pinned, crossings.gradients);
  const double coming = crossing(TransferPath::host_to_device_pinned, crossings.passes);
  const auto waited = [&](double transfer, double compute) {
    // Unit by unit beside the pass: one unit's transfer is never hidden.
    return exposed(transfer, compute, transfer / part.units);
  };
  HostSeconds result;
  result.transfers = waited(leaving, passes.backward) + waited(coming, passes.forward);
  const Sharding sharding = sharding_of(part.training, parallelism);
  const GatheredUnits* units = units_of(sharding);
  if (comes_twice(units)) result.transfers += waited(coming, passes.backward);
  result.transfers *= part.micro_steps;
  result.transfers +=
      waited(crossing(TransferPath::device_to_host_pinned, crossings.last_gradients),
             passes.backward) +
      crossing(TransferPath::host_to_device_pinned, crossings.stepped);
  if (!parallelism.offload.optimizer) return result;
  // CPUOffloadPolicy leaves FSDP2's shards to torch.optim, DeepSpeed brings a vectorized Adam.
  const double rate = at(units != nullptr ? kTorchAdam : kDeepSpeedAdam, outlook);
  // The ranks of a node step at the same time and share its memory's bandwidth.
  const auto sharing = static_cast<double>(std::min(parallelism.ranks(), part.gpus_per_node));
  result.optimizer = part.optimizer_bytes * sharing / rate;
  result.clipping = part.clipping_bytes * sharing / rate;
  if (part.nvme) result.optimizer += nvme_seconds(part, sharing);
  return result;
}

double saved_tensor_seconds(const Graph& graph, const TrainingSpec& training, const GpuLaws& laws,
                            Outlook outlook) {
  if (!training.offload_activations) return 0;
  double seconds = 0;
  const CheckpointPlan plan = checkpoint_plan_of(training, graph.layers());
  for (const auto& [bytes, count] : saved_sizes(graph, plan)) {
    for (const TransferPath path :
         {TransferPath::device_to_host_pinned, TransferPath::host_to_device_pinned}) {
      seconds += static_cast<double>(count) * laws.price(TransferShape{path, bytes}).at(outlook);
    }
  }
  return seconds;
}

PassSeconds waits_for_copies(const CopiedLayers& copied) {
  return {waits_for_leaving(copied), waits_for_coming(copied)};
}

double offloaded_layer_seconds(const OffloadedModel& model, const GpuLaws& laws, Outlook outlook) {
  const auto& [graph, training, passes] = model;
  if (training.offloaded_layers == 0) return 0;
  const auto layers = static_cast<double>(graph.layers());
  CopiedLayers copied{.layers = graph.layers(),
                      .offloaded = training.offloaded_layers,
                      .of_layer = {passes.forward / layers, passes.backward / layers}};
  const auto offloaded = static_cast<double>(training.offloaded_layers);
  for (const auto& [bytes, count] : offloaded_sizes(graph, training.offloaded_layers)) {
    const auto each = [&](TransferPath path) {
      return static_cast<double>(count) / offloaded *
             laws.price(TransferShape{path, bytes}).at(outlook);
    };
    copied.leaving += each(TransferPath::device_to_host_pinned);
    copied.coming += each(TransferPath::host_to_device_pinned);
  }
  const PassSeconds waits = waits_for_copies(copied);
  return waits.forward + waits.backward;
}

std::optional<Unavailable> no_time_of_offload(const Job& job, const GpuLaws& laws) {
  const HostOffload& offload = job.parallelism.offload;
  const std::optional<SaveOnCpu>& saved = job.training->offload_activations;
  if (!offload.any() && !job.training->saves_on_host()) return std::nullopt;
  if (!laws.know_transfers()) {
    return Unavailable{"no PCIe generation is known for " + job.hardware.gpu.name +
                       ", so what the host sends has no time"};
  }
  if (saved && !saved->pin_memory) {
    return Unavailable{
        "no rate is known of copies between a GPU and memory that is not page-locked; set "
        "'pin_memory' to true"};
  }
  if (!offload.any()) return std::nullopt;
  if (!offload.pinned) {
    return Unavailable{
        "no rate is known of copies between a GPU and memory that is not page-locked; leave "
        "'pin_memory' out"};
  }
  if (offload.optimizer && computes_products(job.training->optimizer)) {
    return Unavailable{"no rate is known of the products of " + job.training->optimizer.name +
                       " on the host"};
  }
  const bool on_nvme = offload.optimizer_on_nvme || offload.parameters_on_nvme;
  if (on_nvme && !job.hardware.nvme) {
    return Unavailable{
        "how fast the node's drives are is not known; write hardware.nvme, as 6 GB/s"};
  }
  return std::nullopt;
}

}  // namespace memest
