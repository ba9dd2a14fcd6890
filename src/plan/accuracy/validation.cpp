#include "memest/plan/validation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "memest/graph/parameters.hpp"
#include "memest/memory/data_ranks.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"

namespace memest {
namespace {

using MeasuredNumber = std::variant<Int128, double>;

double as_double(const MeasuredNumber& figure) {
  return std::visit([](auto number) { return static_cast<double>(number); }, figure);
}

MeasuredNumber figure_of(Bytes bytes) { return Int128{bytes.value()}; }
MeasuredNumber figure_of(Flops flops) { return flops.value(); }
MeasuredNumber figure_of(Seconds seconds) { return seconds.value(); }
MeasuredNumber figure_of(std::int64_t count) { return Int128{count}; }
MeasuredNumber figure_of(double number) { return number; }
MeasuredNumber figure_of(RunOutcome outcome) { return static_cast<Int128>(outcome); }

/// Collects the comparisons of one run, rank by rank.
class Comparer {
 public:
  explicit Comparer(std::string part) : part_(std::move(part)) {}

  [[nodiscard]] std::vector<Comparison> compare(const Observables& measured,
                                                const Observables& predicted) && {
    add(Metric::allocated_peak_bytes, measured.allocated_peak, predicted.allocated_peak);
    add(Metric::reserved_peak_bytes, measured.reserved_peak, predicted.reserved_peak);
    add(Metric::device_bytes, measured.device, predicted.device);
    add(Metric::step_seconds, measured.step, predicted.step);
    add(Metric::tokens_per_second_per_gpu, measured.tokens_per_second_per_gpu,
        predicted.tokens_per_second_per_gpu);
    add(Metric::parameters, measured.parameters, predicted.parameters);
    add(Metric::trainable_parameters, measured.trainable_parameters,
        predicted.trainable_parameters);
    add(Metric::buffer_bytes, measured.buffers, predicted.buffers);
    add(Metric::saved_bytes, measured.saved, predicted.saved);
    add_layers(measured.saved_by_layer, predicted.saved_by_layer);
    add(Metric::forward_flops, measured.forward, predicted.forward);
    add(Metric::backward_flops, measured.backward, predicted.backward);
    add_phases(measured.phases, predicted.phases);
    add(Metric::outcome, measured.outcome, predicted.outcome);
    add_ranks(measured.ranks, predicted.ranks);
    return std::move(comparisons_);
  }

 private:
  [[nodiscard]] std::string named(const std::string& part) const {
    return part_.empty() || part.empty() ? part_ + part : part_ + " " + part;
  }

  template <class T>
  void add(Metric metric, const std::optional<T>& measured, const std::optional<T>& predicted,
           const std::string& part = {}) {
    if (!measured) return;
    Comparison comparison{metric, named(part), figure_of(*measured), {}};
    if (predicted) {
      std::visit([&](auto number) { comparison.predicted = number; }, figure_of(*predicted));
    }
    comparisons_.push_back(std::move(comparison));
  }

  void add_layers(const std::optional<std::vector<Bytes>>& measured,
                  const std::optional<std::vector<Bytes>>& predicted) {
    constexpr Metric kMetric = Metric::saved_bytes_per_layer;
    using Count = std::optional<std::int64_t>;
    if (!measured) return;
    const auto size_of = [](const std::vector<Bytes>& layers) {
      return static_cast<std::int64_t>(layers.size());
    };
    if (!predicted) return add(kMetric, Count(size_of(*measured)), Count(), "layers");
    std::vector<Bytes> expected = *measured;
    // One measured layer stands for all, as records of equal layers have it.
    if (expected.size() == 1) expected.resize(predicted->size(), expected.front());
    if (expected.empty() || expected.size() != predicted->size()) {
      return add(kMetric, Count(size_of(expected)), Count(size_of(*predicted)), "layers");
    }
    // Layers are compared for equality: the first that differs is reported, else the first of all.
    const auto [at, beside] = std::mismatch(expected.begin(), expected.end(), predicted->begin());
    const bool all_equal = at == expected.end();
    const auto layer = all_equal ? 0 : static_cast<std::size_t>(at - expected.begin());
    add(kMetric, std::optional(expected[layer]), std::optional((*predicted)[layer]),
        "layer " + std::to_string(layer + 1));
  }

  void add_phases(const std::vector<PhaseBytes>& measured,
                  const std::vector<PhaseBytes>& predicted) {
    for (const PhaseBytes& phase : measured) {
      const auto found =
          std::find_if(predicted.begin(), predicted.end(),
                       [&](const PhaseBytes& other) { return other.name == phase.name; });
      add(Metric::phases, std::optional(phase.bytes),
          found == predicted.end() ? std::nullopt : std::optional(found->bytes), phase.name);
    }
  }

  void add_ranks(const std::vector<RankObservables>& measured,
                 const std::vector<RankObservables>& predicted) {
    static const Observables kNothing;
    for (const RankObservables& rank : measured) {
      const auto found =
          std::find_if(predicted.begin(), predicted.end(),
                       [&](const RankObservables& other) { return other.rank == rank.rank; });
      std::vector<Comparison> of_rank =
          Comparer("rank " + std::to_string(rank.rank))
              .compare(rank.observed, found == predicted.end() ? kNothing : found->observed);
      std::move(of_rank.begin(), of_rank.end(), std::back_inserter(comparisons_));
    }
  }

  std::string part_;
  std::vector<Comparison> comparisons_;
};

RunTraits traits_of(const Job& job) {
  RunTraits traits;
  traits.model =
      job.model.model_type.empty() ? std::string(name_of(job.model.family)) : job.model.model_type;
  if (const ForwardSpec* pass = job.forward()) {
    traits.precision = pass->recipe.name;
    traits.attention = name_of(pass->implementation.attention);
    traits.recompute = text_of(job.recompute());
  }
  return traits;
}

/// "fp8", "megatron, mxfp8", "fsdp2-bf16, float8 rowwise".
std::string products_in(const TrainingSpec& training) {
  std::string text = training.recipe.name;
  if (training.float8) text += ", float8 " + std::string(name_of(training.float8->recipe));
  if (training.te_linears) text += ", " + std::string(name_of(training.te_linears->recipe));
  return text;
}

PlannedRun planned_run_of(const Job& job, const RunTraits& traits, std::int64_t parameters) {
  const TrainingSpec& training = *job.training;
  const Hardware& hardware = job.hardware;
  PlannedRun planned;
  planned.cell = {.implementation = std::string(name_of(training.implementation.framework)),
                  .model = traits.model,
                  .parameters = parameters,
                  .precision = products_in(training),
                  .seq_len = training.seq_len,
                  .gpu = hardware.gpu.slug,
                  .gpus = hardware.count};
  planned.layout = {.parallelism = job.parallelism,
                    .micro_batch = training.micro_batch,
                    .recompute = traits.recompute,
                    .compile = training.implementation.compile};
  planned.tokens_per_gpu = static_cast<double>(training.seq_len) *
                           static_cast<double>(training.micro_batch) *
                           static_cast<double>(training.gradient_accumulation) /
                           static_cast<double>(job.parallelism.ranks_of_a_model());
  return planned;
}

/// Whether a figure is the memory of a rank that nobody names.
bool asks_for_memory(const Observables& measured) {
  return measured.allocated_peak || measured.reserved_peak || measured.device || measured.outcome ||
         !measured.phases.empty() || !measured.ranks.empty();
}

}  // namespace

bool Comparison::is_predicted() const { return !std::holds_alternative<std::monostate>(predicted); }

bool Comparison::equal() const {
  const auto* whole = std::get_if<Int128>(&predicted);
  const auto* expected = std::get_if<Int128>(&measured);
  if (whole != nullptr && expected != nullptr) return *whole == *expected;
  return is_predicted() && error() == 0;
}

double Comparison::error() const {
  const auto* whole = std::get_if<Int128>(&predicted);
  const auto* count = std::get_if<Int128>(&measured);
  const double expected = as_double(measured);
  // Whole numbers are subtracted as such: near ones would lose what tells them apart.
  const double difference =
      whole != nullptr && count != nullptr
          ? static_cast<double>(*whole - *count)
          : (whole != nullptr ? static_cast<double>(*whole) : std::get<double>(predicted)) -
                expected;
  if (difference == 0) return 0;
  return expected == 0 ? std::numeric_limits<double>::infinity() : difference / expected;
}

std::vector<PhaseBytes> phases_of(const ReplayedSteps& steps) {
  std::vector<PhaseBytes> phases;
  for (const PhaseMemory& phase : steps.step.replay.phases) {
    const std::string name(name_of(phase.phase));
    if (phase.phase == Phase::model) {
      phases.push_back({name, phase.end});
      continue;
    }
    const std::string step = "step" + std::to_string(phase.step) + ".";
    const std::string place = (phase.step == 0 ? std::string() : step) + name;
    phases.push_back({place + "_peak", phase.peak});
    phases.push_back({place + "_end", phase.end});
  }
  return phases;
}

namespace {

void add_memory(const MemoryAnswer& memory, Observables& predicted) {
  predicted.allocated_peak = memory.allocated();
  predicted.reserved_peak = memory.reserved();
  predicted.device = memory.device();
  if (const ReplayedSteps* steps = memory.replayed()) predicted.phases = phases_of(*steps);
  const ReplayedSteps* replayed = memory.replayed();
  const bool ends = replayed != nullptr ? replayed->step.replay.out_of_memory.has_value()
                                        : memory.verdict == Verdict::does_not_fit;
  predicted.outcome = ends ? RunOutcome::out_of_memory : RunOutcome::ok;
  if (const auto* saved = std::get_if<Bytes>(&memory.saved)) {
    predicted.saved = *saved;
    predicted.saved_by_layer = memory.saved_by_layer;
  }
}

/// Every rank of a pipeline.
void add_ranks(const MemoryAnswer& worst, const JobEstimate& estimate, Observables& predicted) {
  if (estimate.other_ranks.empty()) return;
  const auto add = [&](const MemoryAnswer& memory) {
    predicted.ranks.push_back({memory.ranks.rank, {}});
    add_memory(memory, predicted.ranks.back().observed);
  };
  add(worst);
  for (const MemoryAnswer& memory : estimate.other_ranks) add(memory);
}

}  // namespace

Observables observables_of(const Job& job, const JobEstimate& estimate) {
  Observables predicted;
  predicted.parameters = estimate.parameters.total;
  predicted.trainable_parameters = estimate.parameters.trainable;
  predicted.buffers = estimate.parameters.buffers;
  if (const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory)) {
    add_memory(*memory, predicted);
    add_ranks(*memory, estimate, predicted);
  }
  if (const auto* flops = std::get_if<FlopsEstimate>(&estimate.flops)) {
    // Every micro-step has as many, so nothing is lost.
    const std::int64_t micro_steps = job.training ? job.training->gradient_accumulation : 1;
    predicted.forward = Flops(flops->forward.value() / micro_steps);
    predicted.backward = Flops(flops->backward.value() / micro_steps);
  }
  if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) {
    predicted.step = time->step;
    predicted.tokens_per_second_per_gpu = time->tokens_per_second_per_gpu;
  }
  return predicted;
}

std::vector<Comparison> compare(const Observables& measured, const Observables& predicted) {
  std::vector<Comparison> comparisons = Comparer("").compare(measured, predicted);
  std::stable_sort(
      comparisons.begin(), comparisons.end(),
      [](const Comparison& left, const Comparison& right) { return left.metric < right.metric; });
  return comparisons;
}

const Comparison* ValidatedRun::worst(Metric metric) const {
  const Comparison* found = nullptr;
  for (const Comparison& comparison : comparisons) {
    if (comparison.metric != metric || !comparison.is_predicted()) continue;
    const bool farther = found == nullptr ||
                         std::abs(comparison.error()) > std::abs(found->error()) ||
                         (found->equal() && !comparison.equal());
    if (farther) found = &comparison;
  }
  return found;
}

void set_apart(ValidatedRun& run, const Approximation& approximation) {
  const auto apart = std::stable_partition(
      run.comparisons.begin(), run.comparisons.end(),
      [&](const Comparison& comparison) { return !approximation.holds(comparison.metric); });
  run.approximate.assign(std::make_move_iterator(apart),
                         std::make_move_iterator(run.comparisons.end()));
  run.comparisons.erase(apart, run.comparisons.end());
}

std::string group_of(const Job& job) {
  const ForwardSpec* pass = job.forward();
  if (pass == nullptr) return std::string(name_of(job.model.family)) + " without training";
  const std::string framework(name_of(pass->implementation.framework));
  if (job.inference) return framework + " inference";
  const bool keeps = std::holds_alternative<NoRecompute>(job.recompute());
  return framework + (row_of(pass->implementation.loop).accelerate ? " Trainer" : "") +
         (keeps ? " training, no recompute" : " training, recompute");
}

ValidatedRun validate_run(std::string id, const Job& job, const Observables& measured) {
  // A record names its rank, or is of the worst one; figures without memory are every rank's.
  const JobEstimate estimate = measured.data_rank || !asks_for_memory(measured)
                                   ? estimate_job(job, measured.data_rank.value_or(0))
                                   : estimate_job(job);
  ValidatedRun run;
  run.id = std::move(id);
  run.group = group_of(job);
  run.traits = traits_of(job);
  if (const ForwardSpec* pass = job.forward()) {
    run.kind = {.implementation = pass->implementation.framework,
                .recomputes = !std::holds_alternative<NoRecompute>(job.recompute()),
                .scale = scale_of(job),
                .layers = pass->implementation.layers,
                .compiled = pass->implementation.is_compiled_or_captured(),
                .mixture = job.model.experts() != nullptr};
  }
  if (job.training) run.planned = planned_run_of(job, run.traits, estimate.parameters.total);
  run.comparisons = compare(measured, observables_of(job, estimate));
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  // FSDP1's four streams with pools reserve more than others' do, and no search proposes it: its
  // runs are left out of the closed form's intervals.
  const std::int64_t formulas = data_rank_of_formulas(job);
  const bool of_formulas = measured.data_rank.value_or(formulas) == formulas;
  if (memory != nullptr && of_formulas && !shards_by<FlatShards>(job)) {
    run.closed_form = memory->closed_form;
  }
  if (const auto* missing = std::get_if<Unavailable>(&estimate.memory)) {
    run.refusal = missing->sentence;
  }
  return run;
}

}  // namespace memest
