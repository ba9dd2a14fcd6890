#include "collectives.hpp"

#include <algorithm>
#include <cmath>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// What of `transfer` a pass of `compute` seconds does not hide; `tail` cannot be hidden at all.
double exposed(double transfer, double compute, double tail) {
  return std::max(transfer - compute, std::min(tail, transfer));
}

}  // namespace

ZeroStage stage_of(const Job& job) {
  return job.training->recipe.gathered_units ? ZeroStage::optimizer_gradients_weights
                                             : job.parallelism.zero;
}

CollectiveSeconds collective_seconds(const StepWork& work, const Job& job, const GpuLaws& laws,
                                     Outlook outlook) {
  if (job.parallelism.data == 1) return {};
  const Recipe& recipe = job.training->recipe;
  const ZeroStage stage = stage_of(job);
  const DType reduced = recipe.gathered_units ? recipe.reduce : recipe.gradients;
  const DType gathered = recipe.gathered_units ? recipe.compute : recipe.weights;
  const double gradients = work.trainable * static_cast<double>(size_of(reduced));
  const double weights = work.parameters * static_cast<double>(size_of(gathered));
  const bool by_unit = stage == ZeroStage::optimizer_gradients_weights;
  const double bucket = job.parallelism.ddp.bucket_cap.as_double();
  const double buckets = by_unit ? work.units : std::max(1.0, gradients / bucket);

  CollectiveSeconds result;
  const auto of_pieces = [&](CollectiveOp op, double bytes, double pieces) {
    if (bytes == 0) return 0.0;
    const CallPrice piece = laws.price(CollectiveShape{
        .op = op, .gpus = job.parallelism.data, .bytes = std::llround(bytes / pieces)});
    result.origin = piece.origin;
    return pieces * piece.at(outlook);
  };
  const CollectiveOp reduction =
      stage == ZeroStage::none ? CollectiveOp::all_reduce : CollectiveOp::reduce_scatter;
  result.reduce = of_pieces(reduction, gradients, buckets);
  result.last_reduce = result.reduce / buckets;
  if (stage == ZeroStage::none) return result;
  const double units = by_unit ? work.units : 1;
  result.gather = of_pieces(CollectiveOp::all_gather, weights, units);
  result.first_gather = result.gather / units;
  return result;
}

ExposedSeconds exposed_seconds(const StepWork& work, const Job& job, const PassSeconds& passes,
                               const CollectiveSeconds& collectives) {
  const double reduce = collectives.reduce;
  const double gather = collectives.gather;
  const double reducing = exposed(reduce, passes.backward, collectives.last_reduce);
  switch (stage_of(job)) {
    case ZeroStage::none:
    case ZeroStage::optimizer:
      return {.gradients = reducing, .weights = gather};
    case ZeroStage::optimizer_gradients:
      return {.gradients = work.micro_steps * reducing, .weights = gather};
    case ZeroStage::optimizer_gradients_weights: {
      const double forward = exposed(gather, passes.forward, collectives.first_gather);
      const double backward = exposed(gather + reduce, passes.backward,
                                      collectives.first_gather + collectives.last_reduce);
      // The backward's wait is shared by both collectives in proportion.
      const double reduced = backward * reduce / std::max(gather + reduce, 1e-30);
      return {.gradients = work.micro_steps * reduced,
              .weights = work.micro_steps * (forward + backward - reduced)};
    }
  }
  unreachable("every ZeRO stage has its collectives");
}

}  // namespace memest
