// A whole model priced once for one GPU type, one way to share its layers (tensor, sequence,
// context, expert ranks), one micro-batch and one recompute. A step's time under any pipeline,
// number of replicas, shards and micro-steps is then arithmetic: no allocation, under a
// microsecond.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/job.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "memest/time/prices.hpp"

namespace memest {

/// Kernels and messages that the host launches for a part of the model.
struct PassLaunches {
  double forward = 0;
  double backward = 0;
  double recompute = 0;
};

/// Seconds of one micro-step over a part of the model, messages that it waits for included.
struct PassTimes {
  double forward = 0;
  double backward = 0;   ///< without recompute
  double recompute = 0;  ///< of forwards, inside the backward
  double weights = 0;    ///< of `backward`: the weights' gradients
  double launching = 0;  ///< of `forward` and `backward`: the GPU's wait for the host to launch
  PassLaunches launches;

  PassTimes& operator+=(const PassTimes& other);
  PassTimes& operator-=(const PassTimes& other);
};

/// Seconds and bytes that a part of the model takes and holds on one rank. Parts subtract.
struct PartCost {
  PassTimes passes;
  double weights = 0;          ///< parameters
  double trained = 0;          ///< of them
  double trained_experts = 0;  ///< of these, what other expert-parallel ranks have others of

  PartCost& operator+=(const PartCost& other);
  PartCost& operator-=(const PartCost& other);
};

/// Matrix products of an optimizer step.
struct ProductCost {
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
};

/// A step of the ranks that take longest, in seconds.
struct StepSeconds {
  double forward = 0;        ///< all micro-steps, over the rank of the pipeline that works most
  double backward = 0;       ///< recompute included
  double sends = 0;          ///< of that rank to its neighbours in the pipeline
  double bubble = 0;         ///< its wait for the other ranks
  double gradients = 0;      ///< their reduction, as far as it is exposed
  double embeddings = 0;     ///< tied ones of the first and the last stage
  double weights = 0;        ///< gathered, as far as exposed
  double host = 0;           ///< transfers from and to it, as far as exposed
  double optimizer = 0;      ///< on the host where it is offloaded
  double products = 0;       ///< of the optimizer step, where it computes more than it moves
  double clipping = 0;       ///< and zeroing of gradients
  double accumulation = 0;   ///< of gradients over micro-steps
  double loading = 0;        ///< that the step waits for its batches
  double product_flops = 0;  ///< of `products`
  double product_bytes = 0;
  std::int64_t rank = 0;  ///< of the pipeline, that works most
  LawOrigin collectives;  ///< of gradients and weights

  [[nodiscard]] double passes() const { return forward + backward; }
  /// Without waiting for batches.
  [[nodiscard]] double computed() const {
    return passes() + sends + bubble + gradients + embeddings + weights + host + optimizer +
           products + clipping + accumulation;
  }
  [[nodiscard]] double total() const { return computed() + loading; }
};

/// The work of a whole model, and what each of its operations takes.
struct PricedWork {
  const StepWork& work;
  const std::vector<OpPrice>& prices;
};

class PricedModel {
 public:
  /// Reads the training, the model and the hardware of `job`. Its references outlive it.
  PricedModel(const PricedWork& priced, const Job& job, const Links& links,
              Outlook outlook = Outlook::expected);

  /// Seconds by the schedule's closed form. `parallelism` shares layers as the prices do.
  [[nodiscard]] StepSeconds step(const Parallelism& parallelism, std::int64_t micro_steps) const;
  /// Seconds by running the schedule.
  [[nodiscard]] StepSeconds simulated_step(const Parallelism& parallelism,
                                           std::int64_t micro_steps) const;

  /// Stage `index` of a pipeline whose layers are cut so. Each pass takes as long as its kernels,
  /// or as the host launches them, whichever is longer.
  [[nodiscard]] PartCost stage(const StageSplit& split, std::int64_t index) const;
  [[nodiscard]] std::int64_t layers() const;
  /// How `parallelism` cuts its layers into stages.
  [[nodiscard]] StageSplit split_of(const Parallelism& parallelism) const;
  /// Seconds of one message between stages.
  [[nodiscard]] double send_seconds(const Parallelism& parallelism) const;

 private:
  friend class StepAccount;

  /// The parts hold all that the inventory has.
  void match_weights(const StepWork& work);

  const StepWork* work_;
  const Job* job_;
  const Links* links_;
  Outlook outlook_;
  double share_ = 1;              ///< of a step that kernels explain
  std::vector<PartCost> before_;  ///< of the first n layers, for n from 0 on
  PartCost front_;                ///< everything before the layers
  PartCost back_;                 ///< and everything behind
  PartCost between_ends_;         ///< what of both no stage of several runs
  double tied_ = 0;               ///< parameters of the table that is the head too
  ProductCost products_;          ///< of the optimizer step over all parameters
  CheckpointPlan checkpoints_;
};

/// Seconds of a step that a search asks for.
Seconds expected_step_time(const PricedModel& model, const Parallelism& parallelism,
                           std::int64_t micro_steps);

}  // namespace memest
