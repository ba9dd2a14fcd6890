// Results that are thrown away though a later operation saved them, and made again before its
// backward reads them: Megatron-core's tensor_parallel.CheckpointWithoutOutput
// (megatron/core/tensor_parallel/random.py, 0.16.1).
#pragma once

#include <cstdint>

#include "memest/spec/training.hpp"

namespace memest {

struct Op;

/// By which word of `recompute` results are made again.
enum class Remade : std::uint8_t { nothing, norm, expert_activation, latent_projection };

/// The parts of a layer that an operation is in, each of which selective recompute runs again in a
/// checkpoint of its own.
struct LayerParts {
  bool attention_core = false;  ///< scores, softmax, dropout, values
  bool feed_forward = false;
  bool experts = false;
  bool shared_experts = false;
  bool prediction = false;  ///< a layer of multi-token prediction, with what joins its inputs

  bool operator==(const LayerParts&) const = default;
};

/// Whether `parts` asks for results of this kind.
bool remakes(const SelectiveRecompute& parts, Remade kind);
/// Whether recompute of `parts` runs the operation again.
bool runs_again(const SelectiveRecompute& parts, const Op& op);

}  // namespace memest
