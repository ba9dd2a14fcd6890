#include "memest/plan/recompute_budget.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "memest/graph/lower.hpp"
#include "memest/spec/framework.hpp"
#include "plan/recompute/chosen_layers.hpp"
#include "plan/recompute/recompute_plans.hpp"

namespace memest {
namespace {

/// Events that the plans of a search replay together: as many as one timeline may have
/// (docs/limits.md).
constexpr std::size_t kMostEventsOfAPlan = 6'000'000;

class RecomputeSearch {
 public:
  RecomputeSearch(const Job& job, const BytesOver& over) : job_(job), over_(over) {}

  std::variant<LeastRecompute, Unavailable> run() && {
    for (const RecomputeFamily& family : recompute_families(job_)) {
      family.falls ? halve(family.plans) : look_at_all(family.plans);
    }
    choose_single_layers();
    if (events_ > kMostEventsOfAPlan) {
      return Unavailable{
          "as little recompute as fits is not available for steps of so many events"};
    }
    if (!answer_.smallest) return why_;
    return std::move(answer_);
  }

 private:
  static double seconds_of(const TriedRecompute& tried) {
    return tried.step ? tried.step->value() : std::numeric_limits<double>::infinity();
  }

  struct Attempt {
    Bytes saved;
    Seconds step;
    std::int64_t over = 0;
  };

  /// Estimates the job with the plan, which is kept where it fits and nothing faster does. Absent
  /// where it has no answer.
  std::optional<Attempt> attempt(const Recompute& recompute) {
    if (events_ > kMostEventsOfAPlan) return std::nullopt;
    Job job = job_;
    job.training->recompute = recompute;
    const JobEstimate estimate = estimate_job(job);
    if (const auto* reason = std::get_if<Unavailable>(&estimate.memory)) {
      why_ = *reason;
      return std::nullopt;
    }
    const auto& memory = std::get<MemoryAnswer>(estimate.memory);
    if (memory.replayed() != nullptr) events_ += memory.replayed()->step.timeline.events.size();
    TriedRecompute tried{recompute, memory.of_capacity().high, {}};
    if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) tried.step = time->step;
    Attempt attempted{{}, tried.step.value_or(Seconds()), over_(memory)};
    if (const auto* saved = std::get_if<Bytes>(&memory.saved)) attempted.saved = *saved;
    auto& smallest = answer_.smallest;
    if (!smallest || tried.taken < smallest->taken) smallest = tried;
    auto& best = answer_.fitting;
    const bool fits = attempted.over <= 0;
    if (fits && (!best || seconds_of(tried) < seconds_of(*best))) best = std::move(tried);
    return attempted;
  }

  bool fits(const Recompute& recompute) {
    const std::optional<Attempt> attempted = attempt(recompute);
    return attempted && attempted->over <= 0;
  }

  /// The first of the plans that fits: each takes less than those before it.
  void halve(const std::vector<Recompute>& plans) {
    if (plans.empty() || fits(plans.front())) return;
    std::size_t refused = 0;
    std::size_t fitting = plans.size() - 1;
    if (fitting == refused || !fits(plans[fitting])) return;
    while (fitting - refused > 1) {
      const std::size_t middle = refused + (fitting - refused) / 2;
      (fits(plans[middle]) ? fitting : refused) = middle;
    }
  }

  /// Plans that take more time than what fits already are left alone.
  void look_at_all(const std::vector<Recompute>& plans) {
    if (answer_.fitting) return;
    for (const Recompute& plan : plans) {
      if (fits(plan)) return;
    }
  }

  /// Looks at single layers of a net, which are unlike.
  void choose_single_layers() {
    const FrameworkRow& row = row_of(job_.training->implementation.framework);
    if (row.checkpoints != CheckpointRule::torch || !row.keeps_contractions) return;
    const std::vector<LayerSaving> layers = savings();
    if (layers.empty()) return;
    choose_layers(layers, [this](const std::vector<std::int64_t>& chosen) {
      const std::optional<Attempt> attempted = attempt(plan_of(chosen));
      return attempted ? std::optional(attempted->over) : std::nullopt;
    });
  }

  static Recompute plan_of(const std::vector<std::int64_t>& chosen) {
    if (chosen.empty()) return NoRecompute{};
    return ChosenRecompute{chosen};
  }

  /// Asks for each layer alone: second forwards add up in time, and what they do not keep in bytes.
  std::vector<LayerSaving> savings() {
    const std::optional<Attempt> own = attempt(NoRecompute{});
    if (!own) return {};
    std::vector<LayerSaving> layers;
    std::map<std::size_t, LayerSaving> of_kinds;
    const std::vector<std::size_t> kinds = kinds_of_layers();
    if (kinds.size() > kMostChosen) return {};
    for (const std::size_t kind : kinds) {
      if (!of_kinds.contains(kind)) {
        const auto layer = static_cast<std::int64_t>(layers.size());
        const std::optional<Attempt> one = attempt(plan_of({layer}));
        if (!one) return {};
        of_kinds[kind] = {(one->step - own->step).value(), (own->saved - one->saved).value(), kind};
      }
      layers.push_back(of_kinds.at(kind));
    }
    return layers;
  }

  /// For each layer of the net its block in the graph.
  std::vector<std::size_t> kinds_of_layers() {
    Job job = job_;
    job.training->recompute = NoRecompute{};
    const auto lowered = lower(job.model, policy_of(job));
    const auto* graph = std::get_if<Graph>(&lowered);
    std::vector<std::size_t> kinds;
    if (graph == nullptr) return kinds;
    for (const BlockRun& run : graph->order) {
      if (!graph->blocks[run.block].checkpointable) continue;
      kinds.insert(kinds.end(), static_cast<std::size_t>(run.repeat), run.block);
    }
    return kinds;
  }

  const Job& job_;
  const BytesOver& over_;
  LeastRecompute answer_;
  std::size_t events_ = 0;
  Unavailable why_{"the program has no words for recompute"};
};

}  // namespace

std::variant<LeastRecompute, Unavailable> least_recompute(const Job& job, const BytesOver& over) {
  return RecomputeSearch(job, over).run();
}

std::variant<Job, OverBudget, Unavailable> with_recompute_in_budget(const Job& job) {
  const auto* asked =
      job.training ? std::get_if<BudgetRecompute>(&job.training->recompute) : nullptr;
  if (asked == nullptr) return job;
  const Bytes budget = asked->budget;
  auto found = least_recompute(job, [budget](const MemoryAnswer& memory) {
    return (memory.of_capacity().high - budget).value();
  });
  if (auto* why = std::get_if<Unavailable>(&found)) return std::move(*why);
  auto& least = std::get<LeastRecompute>(found);
  if (!least.fitting) return OverBudget{budget, *std::move(least.smallest)};
  Job chosen = job;
  chosen.training->recompute = std::move(least.fitting->recompute);
  chosen.training->recompute_budget = budget;
  return chosen;
}

}  // namespace memest
