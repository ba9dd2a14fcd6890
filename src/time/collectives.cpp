#include "collectives.hpp"

#include <algorithm>

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

ExposedSeconds exposed_seconds(const StepWork& work, const Job& job, const PassSeconds& passes,
                               double link) {
  const auto ranks = static_cast<double>(job.parallelism.data);
  if (ranks == 1) return {};
  const Recipe& recipe = job.training->recipe;
  const double hops =
      (ranks - 1) / ranks;  // share of the buffer that crosses a link, one way around the ring
  const DType reduced = recipe.gathered_units ? recipe.reduce : recipe.gradients;
  const DType gathered = recipe.gathered_units ? recipe.compute : recipe.weights;
  const double scatter = hops * work.trainable * static_cast<double>(size_of(reduced)) / link;
  const double gather = hops * work.parameters * static_cast<double>(size_of(gathered)) / link;
  const double bucket = job.parallelism.ddp.bucket_cap.as_double() * hops / link;

  switch (stage_of(job)) {
    case ZeroStage::none:
      return {.gradients = exposed(2 * scatter, passes.backward, 2 * bucket), .weights = 0};
    case ZeroStage::optimizer:
      return {.gradients = exposed(scatter, passes.backward, bucket), .weights = gather};
    case ZeroStage::optimizer_gradients:
      return {.gradients = work.micro_steps * exposed(scatter, passes.backward, bucket),
              .weights = gather};
    case ZeroStage::optimizer_gradients_weights: {
      const double unit = 1 / work.units;
      const double forward = exposed(gather, passes.forward, gather * unit);
      const double backward = exposed(gather + scatter, passes.backward, (gather + scatter) * unit);
      // The backward's wait is shared by both collectives in proportion.
      const double reducing = backward * scatter / std::max(gather + scatter, 1e-30);
      return {.gradients = work.micro_steps * reducing,
              .weights = work.micro_steps * (forward + backward - reducing)};
    }
  }
  unreachable("every ZeRO stage has its collectives");
}

}  // namespace memest
