#include "plan/layouts/refusal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/whole_training.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/framework.hpp"
#include "memest/time/step_time.hpp"
#include "plan/estimate/whole_model.hpp"
#include "plan/layouts/layout_forms.hpp"
#include "plan/layouts/space.hpp"

namespace memest {
namespace {

constexpr std::size_t kTermsInReason = 3;

/// "16.0": GiB with one decimal.
std::string gibibytes(Bytes bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", bytes.as_double() / static_cast<double>(kGiB));
  return text.data();
}

/// Three significant digits.
std::string significant(double value) {
  std::array<char, 32> text{};
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string in_days(double seconds) {
  constexpr double kSecondsOfDay = 86400;
  return significant(seconds / kSecondsOfDay);
}

Sharer sharer_of(const Job& job) { return row_of(job.training->implementation.framework).sharer; }

/// Returns `optimizer` with its states in blocks of 8 bit (bitsandbytes), if it has any that are
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

/// Ranks of data parallelism become twice as many tensor ranks or stages, where that divides.
void add_splits(const Job& job, std::vector<Change>& changes) {
  const auto add = [&](const char* what, std::int64_t Parallelism::* degree) {
    Parallelism split = job.parallelism;
    split.*degree *= 2;
    if (split.data % 2 != 0) return;
    split.data /= 2;
    if (degree == &Parallelism::tensor) split.sequence = true;
    const std::vector<Parallelism> legal = layout_choices(job, job.hardware.count);
    const bool is_legal = std::ranges::any_of(legal, [&](const Parallelism& other) {
      return other.tensor == split.tensor && other.pipeline == split.pipeline &&
             other.context == split.context && other.virtual_stages == split.virtual_stages &&
             other.expert == split.expert && other.whole_experts() == split.whole_experts();
    });
    if (!is_legal) return;
    changes.push_back(
        {std::string(what) + " " + std::to_string(split.*degree), [split](Job& other) {
           other.parallelism = split;
           // Half as many data-parallel ranks: the global batch stays.
           other.training->gradient_accumulation *= 2;
         }});
  };
  add("tensor", &Parallelism::tensor);
  add("pipeline", &Parallelism::pipeline);
}

/// Twice the GPUs, with everything sharded that the framework shards.
Change twice_the_gpus(const Job& job) {
  const std::int64_t more = 2 * job.hardware.count;
  const bool megatron = sharer_of(job) == Sharer::megatron;
  const bool optimizer_alone = divides_optimizer_alone(sharer_of(job));
  return {std::to_string(more) + " GPUs with " + (optimizer_alone ? "ZeRO 1" : "ZeRO 3"),
          [more, megatron, optimizer_alone](Job& other) {
            other.hardware.count = more;
            other.parallelism.data *= 2;
            // Megatron's DistributedOptimizer divides the optimizer and no more.
            if (megatron) return divide_optimizer(other.parallelism);
            cut_states(other.parallelism, optimizer_alone ? ZeroStage::optimizer
                                                          : ZeroStage::optimizer_gradients_weights);
          }};
}

/// DeepSpeed's offload_optimizer, or FSDP2's CPUOffloadPolicy, where the job runs under one of
/// them.
std::optional<Change> offload_of(const Job& job) {
  const Recipe& recipe = job.training->recipe;
  const Parallelism& parallelism = job.parallelism;
  const bool several = parallelism.data > 1 && parallelism.ranks() == parallelism.data;
  const Sharing sharing = sharing_of(parallelism);
  if (!several || sharing.in_flat_units()) return std::nullopt;
  if (sharing.in_units()) {
    return Change{"weights, gradients and states on the host", [](Job& other) {
                    other.parallelism.offload.optimizer = other.parallelism.offload.parameters =
                        true;
                  }};
  }
  const bool narrow = size_of(recipe.gradients) <= size_of(recipe.weights);
  const bool in_stages = sharer_of(job) == Sharer::deepspeed && !recipe.casts_gathered();
  if (!narrow || !in_stages) return std::nullopt;
  const ZeroStage stage = std::max(sharing.stage(), ZeroStage::optimizer_gradients);
  return Change{"the optimizer on the host", [stage](Job& other) {
                  cut_states(other.parallelism, stage);
                  other.parallelism.offload.optimizer = true;
                }};
}

/// "needs 7.4 GiB more: gradients 16.0, optimizer states 32.1, ..."
std::string device_reason_of(const PlanVerdict& verdict) {
  std::string reason = "needs " + gibibytes(verdict.device - verdict.capacity) + " GiB more";
  const std::size_t shown = std::min(kTermsInReason, verdict.largest_terms.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const NamedBytes& term = verdict.largest_terms[i];
    reason += (i == 0 ? ": " : ", ") + term.name + " " + gibibytes(term.bytes);
  }
  return verdict.largest_terms.size() > shown ? reason + ", ..." : reason;
}

std::string device_interval_of(const PlanVerdict& verdict) {
  return "between " + gibibytes(verdict.low) + " and " + gibibytes(verdict.high) + " of " +
         gibibytes(verdict.capacity) + " GiB";
}

/// Empty where the host has enough.
std::string host_reason_of(const HostNeed& host) {
  if (host.verdict() == Verdict::fits) return {};
  const std::string of = gibibytes(host.of_node()) + " of the " + gibibytes(host.capacity.bytes) +
                         " GiB that a node has";
  return host.verdict() == Verdict::too_close_to_call
             ? "the host gives " + of
             : "needs " + gibibytes(host.of_node() - host.capacity.bytes) +
                   " GiB more of its host: " + of;
}

/// Beside Liger's kernels and float8 linears, and around a loss of tiles, only what was recorded
/// has an answer (reader, check_parallelism.cpp, frameworks/trainer.cpp).
bool is_answered(const Job& job) {
  if (job.hardware.count > 1 && only_alone(job) != nullptr) return false;
  const Parallelism& layout = job.parallelism;
  const bool recorded = !sharing_of(layout).in_stages() && !layout.offload.any();
  const TrainingSpec& training = *job.training;
  const LoopRow& loop = row_of(training.implementation.loop);
  if (!leaves_recompute(training.implementation, layout.ranks(), training.recompute)) return false;
  if (loop.prefers && job.training->micro_batch % 2 != 0) return false;
  return recorded || !(loop.takes_tiles || job.training->replaces_modules());
}

/// Adds the ranks between the ends that have more layers in some chunk than each one before, which
/// has more in flight; where layers differ all of them.
void add_listed_ranks(const Job& job, std::vector<std::int64_t>& ranks) {
  const Parallelism& layout = job.parallelism;
  const bool alike = has_layers_alike(job);
  const auto has_as_many = [&layout](std::int64_t before, std::int64_t rank) {
    for (std::int64_t chunk = 0; chunk < layout.virtual_stages; ++chunk) {
      const auto* of_chunk =
          &layout.stage_layers[static_cast<std::size_t>(chunk * layout.pipeline)];
      if (of_chunk[before] < of_chunk[rank]) return false;
    }
    return true;
  };
  for (std::int64_t rank = 1; rank + 1 < layout.pipeline; ++rank) {
    const bool dominated = std::any_of(ranks.begin(), ranks.end(), [&](std::int64_t before) {
      return alike && before > 0 && has_as_many(before, rank);
    });
    if (!dominated) ranks.push_back(rank);
  }
}

}  // namespace

std::vector<Change> changes_of(const Job& job) {
  const TrainingSpec& training = *job.training;
  const Sharing sharing = sharing_of(job.parallelism);
  const bool shards =
      training.recipe.casts_gathered() || sharing.stage() == ZeroStage::optimizer_gradients_weights;
  std::vector<Change> changes;
  if (!std::holds_alternative<FullRecompute>(training.recompute)) {
    changes.push_back(
        {"full recompute", [](Job& other) { other.training->recompute = FullRecompute{}; }});
  }
  if (job.parallelism.data > 1 && sharer_of(job) == Sharer::megatron &&
      !sharing.divides_optimizer()) {
    changes.push_back(
        {"distributed_optimizer", [](Job& other) { divide_optimizer(other.parallelism); }});
  }
  if (job.parallelism.data > 1 && sharer_of(job) == Sharer::nanotron &&
      sharing.stage() == ZeroStage::none) {
    changes.push_back(
        {"ZeRO 1", [](Job& other) { cut_states(other.parallelism, ZeroStage::optimizer); }});
  }
  if (job.parallelism.data > 1 && !divides_optimizer_alone(sharer_of(job)) && !shards) {
    changes.push_back({"ZeRO 3", [](Job& other) {
                         cut_states(other.parallelism, ZeroStage::optimizer_gradients_weights);
                       }});
  }
  if (training.micro_batch > 1 && !training.steps_in_backward) {
    changes.push_back({"micro_batch 1", [](Job& other) {
                         // The batch stays: 8 sequences at once become 8 micro-steps.
                         other.training->gradient_accumulation *= other.training->micro_batch;
                         other.training->micro_batch = 1;
                       }});
  }
  if (auto offload = offload_of(job)) changes.push_back(*std::move(offload));
  add_splits(job, changes);
  changes.push_back(twice_the_gpus(job));
  if (std::optional<Optimizer> small = in_8_bit(training.optimizer);
      small && !divides_optimizer_alone(sharer_of(job))) {
    changes.push_back({training.optimizer.name + "-8bit", [small = *std::move(small)](Job& other) {
                         other.training->optimizer = small;
                         adapt_optimizer_to_loop(*other.training);
                       }});
  }
  if (training.seq_len > 1) {
    changes.push_back({"half the sequence length", [](Job& other) {
                         other.training->seq_len = (other.training->seq_len + 1) / 2;
                       }});
  }
  std::erase_if(changes, [&job](const Change& change) {
    Job other = job;
    change.apply(other);
    return !is_answered(other);
  });
  return changes;
}

const char* only_alone(const Job& job) {
  const ModelSpec& model = job.model;
  if (job.training && job.training->implementation.compile == CompileScope::whole) {
    return "torch.compile of a whole model on several GPUs is not available yet";
  }
  if (model.quantized && row_of(model.quantized->format).of_hqq()) {
    return "weights in HQQ's codes on several GPUs are not available yet";
  }
  if (model.quantized && model.adapter && model.adapter->kind == AdapterKind::dora) {
    return "DoRA over quantised weights on several GPUs is not available yet";
  }
  if (model.low_rank) return "factorised layers on several GPUs are not available yet";
  return nullptr;
}

std::vector<std::int64_t> ranks_that_may_take_most(const Job& job) {
  const Parallelism& layout = job.parallelism;
  std::vector<std::int64_t> ranks;
  for (const StagePlace place : kStagePlaces) {
    if (!may_take_most(place, layout, has_layers_alike(job))) continue;
    if (place == StagePlace::middle && !layout.stage_layers.empty()) {
      add_listed_ranks(job, ranks);
    } else {
      ranks.push_back(rank_at(place, layout));
    }
  }
  return ranks;
}

std::optional<double> seconds_per_token(const Job& job) {
  const auto known = laws_of(job);
  if (!std::holds_alternative<GpuLaws>(known)) return std::nullopt;
  const auto graph = lower_whole(job);
  if (!std::holds_alternative<Graph>(graph)) return std::nullopt;
  const Links links(std::get<GpuLaws>(known), job.hardware);
  const StepWork work = work_of(std::get<Graph>(graph), job);
  const std::vector<OpPrice> prices =
      price_ops(work, links, places_of(job.parallelism, job.hardware.linked_gpus()));
  const PricedModel model({work, prices}, job, links);
  const Seconds step =
      expected_step_time(model, job.parallelism, job.training->gradient_accumulation);
  return step.value() /
         (static_cast<double>(job.global_batch()) * static_cast<double>(job.training->seq_len));
}

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
  const std::string host = verdict.host ? host_reason_of(*verdict.host) : "";
  if (verdict.verdict == Verdict::too_close_to_call) {
    const bool device = host.empty() || verdict.high > verdict.capacity;
    return "too close to call: " + (device ? device_interval_of(verdict) : "") +
           (device && !host.empty() ? "; " : "") + host;
  }
  const bool device = host.empty() || verdict.device > verdict.capacity;
  return (device ? device_reason_of(verdict) : "") + (device && !host.empty() ? "; " : "") + host;
}

std::string lateness_of(const PlanVerdict& verdict, const Goal& goal) {
  const auto known = whole_training_of(verdict, goal.tokens);
  if (const auto* reason = std::get_if<Unavailable>(&known)) {
    return "how long it takes is not known: " + reason->sentence;
  }
  const Spread& seconds = std::get<WholeTraining>(known).seconds;
  const double within = goal.within->value();
  return "takes " + in_days(seconds.expected) + " days (" + in_days(seconds.low) + " to " +
         in_days(seconds.high) + "), " + in_days(seconds.expected - within) + " more than the " +
         in_days(within) + " allowed: needs " + significant(seconds.expected / within) +
         " times the speed";
}

std::vector<Lever> ranked(std::vector<Lever> levers) {
  std::erase_if(levers, [](const Lever& lever) { return lever.saved <= Bytes(); });
  // The first that suffices, in the order in which they are tried, leads; the others follow by what
  // they save.
  const auto first = std::ranges::find_if(levers, [](const Lever& lever) { return lever.fits; });
  const auto rest = first == levers.end() ? levers.begin() : levers.begin() + 1;
  if (first != levers.end()) std::rotate(levers.begin(), first, first + 1);
  std::stable_sort(rest, levers.end(),
                   [](const Lever& left, const Lever& right) { return left.saved > right.saved; });
  return levers;
}

}  // namespace memest
