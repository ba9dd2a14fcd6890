// A search over GPU types, micro-batches, recompute and ZeRO stages on one node: what fits, how
// fast, at what price, and for everything refused, why and what would come closest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/spec/job.hpp"

namespace memest {

struct PlanCandidate {
  const GpuSpec* gpu = nullptr;  ///< into PlanRequest::gpus
  std::int64_t gpus = 1;
  std::int64_t micro_batch = 1;
  std::int64_t gradient_accumulation = 1;
  Recompute recompute;
  ZeroStage zero = ZeroStage::none;
};

/// A term of a refused candidate, largest first.
struct NamedBytes {
  std::string name;
  Bytes bytes;
};

struct PlanVerdict {
  PlanCandidate candidate;
  Verdict verdict = Verdict::fits;
  Bytes device;  ///< expected, with interval
  Bytes low;
  Bytes high;
  Bytes capacity;
  std::variant<TimeEstimate, Unavailable> time;
  std::variant<CostEstimate, Unavailable> cost;
  std::string reason;  ///< never empty unless it fits: "needs 7.4 GiB more: gradients 16.0, ..."
  std::string lever;   ///< for a refusal, the next thing to try, with what it saves
  std::vector<NamedBytes> largest_terms;  ///< of the peak, largest first
};

struct PlanRequest {
  Job job;  ///< model and training; hardware.gpu is not used
  std::vector<GpuSpec> gpus;
  std::vector<std::int64_t> counts;  ///< GPUs to consider, on one node
  std::vector<Price> prices;
};

struct PlanAnswer {
  /// For each GPU type and count the candidate of least time a token among those that fit; where
  /// none fits surely, the one that is too close to call and needs least, marked by its verdict.
  /// What fits comes first, then what is cheapest a token, then what is fastest; answers without a
  /// price or a time come last.
  std::vector<PlanVerdict> best;
  std::vector<PlanVerdict> refused;  ///< for each GPU type and count without one: the nearest miss
  std::size_t candidates = 0;        ///< evaluated
  std::variant<std::monostate, Unavailable> unavailable;  ///< why nothing could be searched
};

/// Varies micro-batch, recompute and ZeRO stage, but for those that the file wrote
/// (Job::micro_batch_given, ...). With `global_batch_given` the micro-batch divides the share of a
/// GPU and accumulation follows; else it is a power of two and accumulation is the job's.
/// Candidates whose time is equal rank by the lower stage, then the lesser recompute. Throws
/// OverflowError where a size leaves its range.
PlanAnswer search_plans(const PlanRequest& request);

}  // namespace memest
