#include "memest/diag/expect.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

/// Tokens that a step trains on, that a call makes, or where it makes none reads.
double tokens_of(const Job& job) {
  if (!job.inference) {
    return static_cast<double>(job.global_batch()) * static_cast<double>(job.training->seq_len);
  }
  const InferenceSpec& inference = *job.inference;
  const std::int64_t each = inference.generation ? inference.generation->tokens : inference.seq_len;
  return static_cast<double>(inference.prompts()) * static_cast<double>(each);
}

}  // namespace

CostEstimate cost_of(const Job& job, DollarsPerHour price, Seconds seconds) {
  expect(job.forward() != nullptr, "a job that runs nothing costs nothing");
  CostEstimate cost;
  cost.per_hour = Dollars(price.value() * static_cast<double>(job.hardware.count));
  cost.per_step = price * seconds * static_cast<double>(job.hardware.count);
  cost.per_billion_tokens = cost.per_step * (1e9 / tokens_of(job));
  cost.source = job.hardware.price_source;
  return cost;
}

}  // namespace memest
