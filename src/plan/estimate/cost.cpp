#include "memest/diag/expect.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {

CostEstimate cost_of(const Job& job, DollarsPerHour price, Seconds seconds) {
  expect(job.training.has_value(), "a job without training has no step");
  CostEstimate cost;
  cost.per_hour = Dollars(price.value() * static_cast<double>(job.hardware.count));
  cost.per_step = price * seconds * static_cast<double>(job.hardware.count);
  const double tokens =
      static_cast<double>(job.global_batch()) * static_cast<double>(job.training->seq_len);
  cost.per_billion_tokens = cost.per_step * (1e9 / tokens);
  cost.source = job.hardware.price_source;
  return cost;
}

}  // namespace memest
