// The collectives of data parallelism, and the part of them that the step waits for.
#pragma once

#include "memest/spec/job.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/time/links.hpp"
#include "memest/time/priced_model.hpp"

namespace memest {

/// Weights that ranks gather in fp8: shares that FSDP2's cast (torchao's all_gather), or those of
/// Megatron that live in it.
struct Float8Gathers {
  double elements = 0;
  double tensors = 0;
};

/// Those of a rank with so many elements of weights.
Float8Gathers gathers_in_fp8(const StepWork& work, const TrainingSpec& training, double weights);

/// Bytes less that the gathers of ZeRO 3 carry for so many elements of weights, of which some lie
/// as codes: each at what its code takes, or nothing where no codes are cut.
double bytes_saved_by_codes(const StepWork& work, const Job& job, const Sharding& sharding,
                            double weights);

/// One rank's weights, reduced and gathered in so many units (layers) of a training.
struct ReplicatedPart {
  const PartCost& held;
  double units = 1;
  const TrainingSpec& training;
  const Parallelism& parallelism;
  std::int64_t linked_gpus = 8;
  Float8Gathers in_fp8;    ///< of the weights
  double saved_bytes = 0;  ///< of a gather, by codes
};

/// Seconds of one micro-step's passes.
struct PassSeconds {
  double forward = 0;
  double backward = 0;  ///< recompute included
};

/// Seconds that the step waits, over all its micro-steps.
struct ExposedSeconds {
  double gradients = 0;  ///< all-reduce or reduce-scatter
  double weights = 0;    ///< all-gather
};

/// Seconds of each reduction and all-gather by itself.
struct CollectiveSeconds {
  double reduce = 0;        ///< all of the gradients
  double gather = 0;        ///< all of the weights
  double last_reduce = 0;   ///< the last bucket's, or unit's
  double first_gather = 0;  ///< the first unit's
  double casts = 0;         ///< of shares to fp8 for one all-gather, by the rank itself
  LawOrigin origin;
};

/// Seconds of `transfer` that a pass of `compute` seconds does not hide; `tail` is never hidden.
double exposed(double transfer, double compute, double tail);

/// Gradients go in DDP's buckets, under ZeRO 3 unit by unit as the weights.
CollectiveSeconds collective_seconds(const ReplicatedPart& part, const Links& links,
                                     Outlook outlook);

/// Gradients are reduced while the backward pass runs: what is left is what exceeds it, and the
/// last piece. ZeRO 0 and 1 reduce once a step (no_sync), 2 and 3 in every micro-step, since no
/// rank keeps a whole gradient. ZeRO 1 and 2 gather the stepped weights after the optimizer; ZeRO 3
/// gathers every unit in both passes of every micro-step, one unit ahead; in a pipeline once a
/// step. Megatron-core hides neither unless it is told to (overlap_grad_reduce,
/// overlap_param_gather), then beside the last backward and the first forward, in its own buckets.
ExposedSeconds exposed_seconds(const ReplicatedPart& part, const PassSeconds& passes,
                               const CollectiveSeconds& collectives, double micro_steps);

}  // namespace memest
