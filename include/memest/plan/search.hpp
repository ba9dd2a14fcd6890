// A search over GPU types, counts and every way to lay a model over them: what fits, how fast, at
// what price, and for everything refused, why and what would come closest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/objective.hpp"
#include "memest/spec/job.hpp"

namespace memest {

struct PlanCandidate {
  const GpuSpec* gpu = nullptr;  ///< into PlanRequest::gpus
  std::int64_t gpus = 1;
  Parallelism parallelism = {};
  std::int64_t micro_batch = 1;
  std::int64_t gradient_accumulation = 1;
  Recompute recompute = {};
};

/// A term of a candidate's peak.
struct NamedBytes {
  std::string name;
  Bytes bytes;
};

/// A change that makes a candidate need less, with what it costs.
struct Lever {
  std::string name;  ///< "full recompute", "ZeRO 3", "tensor 2", "adamw-8bit"
  Bytes saved;
  bool fits = false;                  ///< all of it, as `estimate` answers for it, host included
  std::optional<double> slower = {};  ///< seconds a token over those before; none where not known
  std::optional<Bytes> host = {};     ///< of the host's memory, a GPU, where it takes some
};

/// Another candidate on the same GPUs.
struct Rival {
  PlanCandidate candidate;
  double slower = 0;  ///< seconds a token over the row's, less 1
};

/// So many rivals of a row are kept.
inline constexpr std::size_t kRivals = 3;

struct PlanVerdict {
  PlanCandidate candidate;
  std::size_t choice = 0;  ///< of the implementations that are compared
  Verdict verdict = Verdict::fits;
  Bytes device;  ///< expected, with interval; of the ranks that take most
  Bytes low;
  Bytes high;
  Bytes capacity;
  std::optional<HostNeed> host = {};  ///< where it offloads
  bool replayed = false;              ///< the bytes are of the replay; else of the closed form
  std::variant<TimeEstimate, Unavailable> time;
  std::variant<CostEstimate, Unavailable> cost;
  std::string reason;  ///< never empty unless it fits: "needs 7.4 GiB more: gradients 16.0, ..."
  std::vector<Lever> levers;  ///< for a refusal: the first that fits, then what saves most
  std::vector<NamedBytes> largest_terms;  ///< of the closed form's peak, largest first
  /// For an answer with a time: the fastest of the others that are no faster and fit by the closed
  /// form.
  std::vector<Rival> rivals;
};

/// So many tokens, and how long their training may take.
struct Goal {
  double tokens = 0;
  std::optional<Seconds> within = {};
};

/// A search's next step.
enum class PlanStep : std::uint8_t { layout, replay };

struct PlanRequest {
  Job job;  ///< model and training; hardware.gpu is not used
  std::vector<GpuSpec> gpus;
  std::vector<std::int64_t> counts;  ///< GPUs to consider
  std::vector<Price> prices;
  Objective objective = Objective::money;
  std::optional<Goal> goal = {};  ///< what does not reach it in time is refused
  std::size_t threads = 1;        ///< the answer is the same with any number
  /// The first so many of PlanAnswer::best are what `estimate` answers for them: steps replayed,
  /// those that do not fit left for the next candidate. 0: the closed form says what fits, the
  /// front too.
  std::size_t finalists = 0;
  std::size_t misses = 0;  ///< of PlanAnswer::refused so many that lack least are, with levers
  bool front = true;       ///< whether PlanAnswer::front is asked for
  /// Called by the search's threads, thousands of times a second.
  std::function<void(PlanStep)> on_step = {};
};

/// How many candidates were refused for one reason.
struct RefusedCandidates {
  std::string reason;
  std::size_t candidates = 0;
};

struct PlanAnswer {
  /// For each GPU type and count the candidate of least time a token among those that fit, one
  /// that has to give memory back to the driver only where no other does; where none fits surely,
  /// the one that is too close to call and needs least, marked by its verdict.
  /// Plans that fit come first, then the best by the objective, then the fastest; answers
  /// without a price or a time come last.
  std::vector<PlanVerdict> best;
  /// For each GPU type and count without one: the nearest miss. Those that lack least come first,
  /// those without a layout last.
  std::vector<PlanVerdict> refused;
  /// Plans that fit and to which no other is equal or better in dollars a token, tokens a
  /// second, number of GPUs and free memory at once; the cheapest first.
  std::vector<PlanVerdict> front;
  std::size_t candidates = 0;              ///< considered, those that bounds leave out included
  std::vector<RefusedCandidates> reasons;  ///< the most frequent first
  std::variant<std::monostate, Unavailable> unavailable;  ///< why nothing could be searched
};

/// Varies micro-batch, recompute and layout, but for what the file wrote (Job::given). With a
/// global batch given the micro-batch divides the share of a data-parallel rank and accumulation
/// follows; else it is a power of two and accumulation is the job's. Candidates whose time is equal
/// rank by the lesser split, then the lesser recompute. Throws OverflowError where a size leaves
/// its range.
PlanAnswer search_plans(const PlanRequest& request);

}  // namespace memest
