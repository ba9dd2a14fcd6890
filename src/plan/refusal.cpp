#include "refusal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

constexpr std::size_t kTermsInReason = 3;

/// "16.0": GiB with one decimal.
std::string gibibytes(Bytes bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", bytes.as_double() / static_cast<double>(kGiB));
  return text.data();
}

/// A change to a job, and its name.
struct Change {
  std::string name;
  std::function<void(Job&)> apply;
};

/// The same optimizer with its states in blocks of 8 bit (bitsandbytes), where it has any that are
/// as large as the parameters.
std::optional<Optimizer> in_8_bit(const Optimizer& optimizer) {
  Optimizer result = optimizer;
  bool changed = false;
  for (OptimizerState& state : result.states) {
    if (state.shape != StateShape::like_parameter || state.on_host) continue;
    state.shape = StateShape::blockwise_8bit;
    changed = true;
  }
  return changed ? std::optional(std::move(result)) : std::nullopt;
}

/// From the least change of what is trained to the greatest.
std::vector<Change> changes_of(const Job& job) {
  const TrainingSpec& training = *job.training;
  const bool shards = training.recipe.gathered_units ||
                      job.parallelism.zero == ZeroStage::optimizer_gradients_weights;
  std::vector<Change> changes;
  if (!std::holds_alternative<FullRecompute>(training.recompute)) {
    changes.push_back(
        {"full recompute", [](Job& other) { other.training->recompute = FullRecompute{}; }});
  }
  if (job.parallelism.data > 1 && !shards) {
    changes.push_back({"ZeRO 3", [](Job& other) {
                         other.parallelism.zero = ZeroStage::optimizer_gradients_weights;
                       }});
  }
  if (training.micro_batch > 1) {
    changes.push_back({"micro_batch 1", [](Job& other) { other.training->micro_batch = 1; }});
  }
  const std::int64_t more = 2 * job.hardware.count;
  changes.push_back({std::to_string(more) + " GPUs with ZeRO 3", [more](Job& other) {
                       other.hardware.count = more;
                       other.parallelism.data = more;
                       other.parallelism.zero = ZeroStage::optimizer_gradients_weights;
                     }});
  if (std::optional<Optimizer> small = in_8_bit(training.optimizer)) {
    changes.push_back({training.optimizer.name + "-8bit", [small = *std::move(small)](Job& other) {
                         other.training->optimizer = small;
                       }});
  }
  if (training.seq_len > 1) {
    changes.push_back({"half the sequence length", [](Job& other) {
                         other.training->seq_len = (other.training->seq_len + 1) / 2;
                       }});
  }
  return changes;
}

std::optional<MemoryEstimate> memory_of(const Job& job) {
  const auto graph = lower(job.model, policy_of(job));
  if (!std::holds_alternative<Graph>(graph)) return std::nullopt;
  const Ledger ledger = write_ledger(std::get<Graph>(graph), job);
  return estimate_memory(ledger, ledger.bindings);
}

}  // namespace

std::vector<NamedBytes> largest_terms(const Ledger& ledger, const MemoryEstimate& estimate) {
  std::vector<NamedBytes> terms;
  for (const Term& term : estimate.terms) {
    terms.push_back({ledger.terms[term.index].name, term.value});
  }
  std::stable_sort(terms.begin(), terms.end(), [](const NamedBytes& left, const NamedBytes& right) {
    return left.bytes > right.bytes;
  });
  return terms;
}

std::string reason_of(const PlanVerdict& verdict) {
  if (verdict.verdict == Verdict::too_close_to_call) {
    return "too close to call: between " + gibibytes(verdict.low) + " and " +
           gibibytes(verdict.high) + " of " + gibibytes(verdict.capacity) + " GiB";
  }
  std::string reason = "needs " + gibibytes(verdict.device - verdict.capacity) + " GiB more";
  const std::size_t shown = std::min(kTermsInReason, verdict.largest_terms.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const NamedBytes& term = verdict.largest_terms[i];
    reason += (i == 0 ? ": " : ", ") + term.name + " " + gibibytes(term.bytes);
  }
  return verdict.largest_terms.size() > shown ? reason + ", ..." : reason;
}

std::vector<Lever> levers_of(const Job& job) {
  std::vector<Lever> levers;
  for (const Change& change : changes_of(job)) {
    Job changed = job;
    change.apply(changed);
    std::optional<MemoryEstimate> after = memory_of(changed);
    if (after) levers.push_back({change.name, *std::move(after)});
  }
  return levers;
}

std::string lever_text(const std::vector<Lever>& levers, const MemoryEstimate& estimate,
                       const Capacity& capacity) {
  std::string best;
  Bytes most_saved;
  for (const Lever& lever : levers) {
    if (lever.after.device() >= estimate.device()) continue;
    const Bytes saved = estimate.device() - lever.after.device();
    const std::string text = lever.name + " saves " + gibibytes(saved) + " GiB";
    if (judge(lever.after, capacity) == Verdict::fits) return text + " and fits";
    if (saved > most_saved) {
      best = text;
      most_saved = saved;
    }
  }
  return best;
}

}  // namespace memest
