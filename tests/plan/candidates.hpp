// The job of a candidate of a search, as `estimate` would be asked for it.
#pragma once

#include "memest/plan/search.hpp"

namespace memest::test {

inline Job job_of(const PlanRequest& request, const PlanCandidate& candidate) {
  Job job = request.job;
  job.hardware.gpu = *candidate.gpu;
  job.lay_over(candidate.parallelism);
  job.training->micro_batch = candidate.micro_batch;
  job.training->gradient_accumulation = candidate.gradient_accumulation;
  job.training->recompute = candidate.recompute;
  return job;
}

}  // namespace memest::test
