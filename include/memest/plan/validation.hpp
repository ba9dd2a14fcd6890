// Predictions held against recorded runs: for every figure that was measured what the estimate
// says, and for every group of runs how far off it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/spec/gpu/accuracy.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/observables.hpp"

namespace memest {

/// Returns the estimate's figures for everything that a record can have measured; the unknown are
/// absent.
Observables observables_of(const Job& job, const JobEstimate& estimate);

/// The phases of a replay as records name them: "model", "step1.forward_peak".
std::vector<PhaseBytes> phases_of(const ReplayedSteps& steps);

/// A figure of a record beside its prediction. Counts, bytes and FLOPs are whole; the outcome is 0
/// for `ok`, 1 for `oom`.
struct Comparison {
  Metric metric = Metric::allocated_peak_bytes;
  std::string part;  ///< "step2.forward_peak", "layer 3", "rank 1"; empty for the run as a whole
  std::variant<Int128, double> measured;
  std::variant<std::monostate, Int128, double> predicted;  ///< nothing where there is none

  [[nodiscard]] bool is_predicted() const;
  /// Whether both sides hold the same number.
  [[nodiscard]] bool equal() const;
  /// predicted / measured - 1, for people: lines of equality ask equal(). Infinite where only the
  /// measured figure is zero.
  [[nodiscard]] double error() const;
};

/// Every measured figure, in the order of Metric. Lists of layers are one comparison: of the first
/// layer that differs, else of the first.
std::vector<Comparison> compare(const Observables& measured, const Observables& predicted);

/// A run's traits, in words of its spec.
struct RunTraits {
  std::string model;  ///< Hugging Face's model type, else the family
  std::string precision;
  std::string attention;
  std::string recompute;
};

/// Runs with an equal kind are alike.
struct RunKind {
  Framework implementation = {};
  bool recomputes = false;
  RunScale scale = RunScale::one_gpu;
  LayerSpec layers = LayerSpec::local;
  bool compiled = false;
  bool mixture = false;  ///< of experts
};

/// A run's source: runs that share one of these are left out together (residuals.hpp).
struct RunSource {
  std::string publication;
  std::string framework;  ///< as the publication calls it
  std::string gpu;        ///< slug
  std::int64_t year = 0;
};

/// The question that a plan would answer for a training: runs with an equal one differ in their
/// layout alone.
struct RunCell {
  std::string implementation;
  std::string model;  ///< as RunTraits::model
  std::int64_t parameters = 0;
  std::string precision;
  std::int64_t seq_len = 0;
  std::string gpu;  ///< slug
  std::int64_t gpus = 0;

  auto operator<=>(const RunCell&) const = default;
};

/// The answer of a plan, or its reader's choice.
struct RunLayout {
  Parallelism parallelism;
  std::int64_t micro_batch = 0;
  std::string recompute;
  CompileScope compile = CompileScope::off;

  auto operator<=>(const RunLayout&) const = default;
};

/// A training as one of those that a plan chooses among.
struct PlannedRun {
  RunCell cell;
  RunLayout layout;
  double tokens_per_gpu = 0;  ///< of a step
};

/// A record after comparison.
struct ValidatedRun {
  std::string id;
  std::optional<RunSource> source;  ///< of a run that others published
  std::string group;  ///< "transformers training, no recompute"; empty where there is no job
  std::optional<RunKind> kind;        ///< of a training
  std::optional<PlannedRun> planned;  ///< of a training
  RunTraits traits;
  std::vector<Comparison> comparisons;
  std::vector<Comparison> approximate;  ///< counted apart: nothing is made of them or held to them
  std::optional<Bytes> closed_form;     ///< its allocated peak, beside the replay's
  std::string refusal;  ///< why memory, FLOPs and time are not predicted; empty where they are

  /// The comparison of `metric` that is farthest off; null where there is none with a prediction.
  [[nodiscard]] const Comparison* worst(Metric metric) const;
};

/// The runs that are judged together: one implementation, with or without recompute.
std::string group_of(const Job& job);

/// Estimates `job` and compares. Throws OverflowError where a size leaves its range.
ValidatedRun validate_run(std::string id, const Job& job, const Observables& measured);

/// One metric over the runs of a group.
struct MetricSummary {
  std::string group;
  Metric metric = Metric::allocated_peak_bytes;
  std::int64_t compared = 0;
  std::int64_t equal = 0;
  std::int64_t not_predicted = 0;  ///< measured, in runs that are not refused
  // Quantiles of |error|; zero where nothing was compared.
  double median = 0;
  double p90 = 0;
  double maximum = 0;
  std::string worst;  ///< id of the run that is farthest off
};

/// Moves the comparisons of what is approximate to `approximate`.
void set_apart(ValidatedRun& run, const Approximation& approximation);

/// A summary for each group and metric that was measured; groups by name, metrics in their order.
std::vector<MetricSummary> summarize(const std::vector<ValidatedRun>& runs);

/// One metric over the runs that others published, of one framework or of all.
struct PublishedSummary {
  std::string framework;  ///< as they call it; empty: all of them
  Metric metric = Metric::allocated_peak_bytes;
  std::int64_t measured = 0;
  std::int64_t answered = 0;  ///< in full or approximately
  std::int64_t in_full = 0;   ///< by specs that leave out nothing that decides it
  std::int64_t equal = 0;     ///< of those in full
  // Quantiles of the errors in full; zero where there are none.
  double median_error = 0;  ///< with its sign: which way they are off
  double median = 0;        ///< of |error|, as below
  double p90 = 0;
};

/// A summary for each framework and metric that was measured, behind one over all frameworks;
/// frameworks by name, metrics in their order.
std::vector<PublishedSummary> summarize_published(const std::vector<ValidatedRun>& runs);

/// Whatever breaks a line, at its place in the file of lines; empty where every line holds.
Diagnostics hold_to_lines(const std::vector<ValidatedRun>& runs, const AccuracyLines& lines);

}  // namespace memest
