// One job, answered whole: parameters, memory, FLOPs, time and money, each either a value or the sentence that says why not.
#pragma once

#include <string>
#include <variant>

#include "memest/graph/parameters.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/step_time.hpp"

namespace memest {

/// All GPUs of the job together.
struct CostEstimate {
  Dollars per_hour;
  Dollars per_step;
  Dollars per_billion_tokens;
  std::string source;
};

/// A ledger with its value, so that every number can be explained.
struct MemoryAnswer {
  Ledger ledger;
  MemoryEstimate estimate;
  Capacity capacity;
  Verdict verdict = Verdict::too_close_to_call;
  SimpleView simple;
  std::variant<Bytes, Unavailable> saved;  ///< what autograd keeps in one forward
};

struct JobEstimate {
  ParameterCounts parameters;
  std::variant<MemoryAnswer, Unavailable> memory;
  std::variant<FlopsEstimate, Unavailable> flops;
  std::variant<TimeEstimate, Unavailable> time;
  std::variant<CostEstimate, Unavailable> cost;
};

/// Throws OverflowError where a size leaves its range.
JobEstimate estimate_job(const Job& job);

}  // namespace memest
