#include "host_transfers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "datasheet_laws.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

std::string milliseconds(double seconds) {
  return std::to_string(std::llround(std::ceil(seconds * 1e3))) + " ms";
}

std::string size_text(double bytes) { return binary_text(Bytes(std::llround(bytes))); }

}  // namespace

/// DeepSpeed 0.19 sends reduced gradients in fp32, in stage 3 in the gradients' type as well, and
/// brings 16-bit weights back; FSDP2 sends gradients and brings weights in their own types. Weights
/// come for every micro-step's forward; that they come again for its backward is not counted, for
/// some stay.
HostTransfers host_transfers_of(const Job& job) {
  const Recipe& recipe = job.training->recipe;
  const Parallelism& parallelism = job.parallelism;
  const auto micro_steps = static_cast<double>(job.training->gradient_accumulation);
  const double elements = static_cast<double>(count_parameters(job.model).trainable) /
                          static_cast<double>(parallelism.shard_ranks());
  const double weights = elements * static_cast<double>(size_of(recipe.weights));
  const double gradients = elements * static_cast<double>(size_of(recipe.gradients));
  HostTransfers transfers;
  transfers.to_device = (parallelism.offload.parameters ? micro_steps : 1) * weights;
  if (parallelism.fsdp) {
    transfers.to_host = micro_steps * gradients;
  } else if (parallelism.offload.optimizer) {
    const bool each = parallelism.zero == ZeroStage::optimizer_gradients_weights;
    transfers.to_host =
        elements * static_cast<double>(size_of(DType::fp32)) + (each ? micro_steps * gradients : 0);
  }
  return transfers;
}

Unavailable no_time_of_offload(const Job& job) {
  const HostTransfers transfers = host_transfers_of(job);
  std::string sentence = "no measurement says how fast a host steps an optimizer or adds gradients";
  sentence += "; a step sends at least " + size_text(transfers.to_host) + " to the host and " +
              size_text(transfers.to_device) + " back";
  if (const auto rate = pcie_rate_of(job.hardware.gpu)) {
    sentence += ", which takes PCIe " + std::to_string(job.hardware.gpu.pcie_generation->value) +
                " " + milliseconds(std::max(transfers.to_host, transfers.to_device) / *rate) +
                " or more";
  }
  return {std::move(sentence)};
}

}  // namespace memest
