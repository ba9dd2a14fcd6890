// Collectives over the GPUs of this node, by NCCL, in one process that drives them all. With a
// message of `bytes`, the whole buffer as nccl-tests counts it, each of n GPUs sends at least
//
//   all-reduce                                  2·(n - 1)/n·bytes
//   all-gather, reduce-scatter, all-to-all        (n - 1)/n·bytes
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/harness/nccl.hpp"

namespace memest::kernels {

/// Whether there are so many GPUs, NCCL is found, and the message is a whole number of bf16
/// elements for each of them that fits.
bool can_communicate(const Nccl& nccl, const CollectiveShape& shape);

Measurement measure_collective(const Device& device, const Nccl& nccl, const CollectiveShape& shape,
                               const RulerSettings& settings);

}  // namespace memest::kernels
