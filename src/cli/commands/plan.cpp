#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cli/command.hpp"
#include "cli/machine/progress.hpp"
#include "cli/record/plan_recorded.hpp"
#include "cli/record/recorded_answers.hpp"
#include "cli/spec.hpp"
#include "memest/plan/alternatives.hpp"
#include "memest/plan/implementations.hpp"
#include "memest/plan/largest.hpp"
#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_choices.hpp"
#include "memest/report/largest_report.hpp"
#include "memest/report/plan_report.hpp"

namespace memest {
namespace {

/// `--gpu all` is the whole catalog even where the spec names a GPU.
constexpr const char* kAllGpus = "all";

/// The GPUs of one node where nobody says how many.
const std::vector<std::int64_t> kUsualCounts = {1, 2, 4, 8};

/// Whether the whole catalog is asked about; `own` is the spec's GPU, null where it names none.
bool asks_for_all(const Arguments& arguments, const GpuSpec* own) {
  const std::vector<std::string>& names = arguments.gpus;
  return names.empty() ? own == nullptr : std::ranges::find(names, kAllGpus) != names.end();
}

/// Those of --gpu, else the spec's own, else the catalog.
Checked<std::vector<GpuSpec>> gpus_to_consider(const Arguments& arguments, const GpuSpec* own) {
  const std::vector<std::string>& names = arguments.gpus;
  if (asks_for_all(arguments, own)) return all_gpus();
  if (names.empty()) return std::vector<GpuSpec>{*own};
  std::vector<GpuSpec> gpus;
  Diagnostics errors;
  for (const std::string& name : names) {
    Checked<GpuSpec> gpu = find_gpu(name);
    if (gpu.ok()) {
      gpus.push_back(std::move(gpu).value());
    } else {
      append(gpu.diagnostics(), errors);
    }
  }
  if (!errors.empty()) return errors;
  return gpus;
}

std::vector<std::int64_t> counts_to_consider(const Arguments& arguments, const Job& job) {
  if (!arguments.counts.empty()) return arguments.counts;
  if (job.hardware.count > 1) return {job.hardware.count};
  return kUsualCounts;
}

/// The spec as it is, or over the first of the asked numbers of GPUs that it may be trained on:
/// some sharing is refused on one, which a spec means that says none.
Checked<std::vector<ImplementationChoice>> choices_of(const Arguments& arguments) {
  ReadRequest request = request_of(arguments, arguments.words);
  Checked<std::vector<ImplementationChoice>> written =
      read_choices(request, arguments.implementations);
  if (written.ok()) return written;
  for (const std::int64_t count : arguments.counts) {
    request.gpus = count;
    Checked<std::vector<ImplementationChoice>> over =
        read_choices(request, arguments.implementations);
    if (over.ok()) return over;
  }
  return written;
}

/// Rows that people read are replayed; of the other formats all rows.
void choose_replays(const Arguments& arguments, PlanRequest& request) {
  const bool read_by_people = arguments.format == Format::text ||
                              arguments.format == Format::markdown ||
                              arguments.format == Format::html;
  request.finalists = read_by_people ? kShownPlans : request.gpus.size() * request.counts.size();
  request.misses = read_by_people ? kShownRefusals : request.finalists;
  request.front = arguments.front || arguments.format == Format::html;
}

/// How far a long search is. Threads report steps; few of those are shown.
class SearchProgress {
 public:
  SearchProgress(const Arguments& arguments, const Surroundings& surroundings)
      : line_(surroundings.err, arguments.quiet) {}

  void operator()(PlanStep step) {
    const std::scoped_lock lock(mutex_);
    ++(step == PlanStep::layout ? layouts_ : replays_);
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    constexpr std::chrono::milliseconds kPause{200};
    next_ = now + kPause;
    line_.show(layouts_, "layouts tried, " + std::to_string(replays_) + " candidates replayed");
  }

 private:
  ProgressLine line_;
  std::mutex mutex_;
  std::size_t layouts_ = 0;
  std::size_t replays_ = 0;
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);  // short work shows nothing
};

/// The job of the first implementation that takes the spec; one does.
const Job& first_job(const std::vector<ImplementationChoice>& choices) {
  const auto first = std::ranges::find_if(
      choices, [](const ImplementationChoice& choice) { return choice.job.has_value(); });
  return *first->job;
}

ExitCode code_of(const PlanAnswer& answer) {
  if (std::holds_alternative<Unavailable>(answer.unavailable)) return ExitCode::not_known;
  return answer.best.empty() ? ExitCode::no : ExitCode::yes;
}

ExitCode code_of(const std::vector<Largest>& answers) {
  const auto fits = [](const Largest& one) { return one.value > 0; };
  if (std::ranges::any_of(answers, fits)) return ExitCode::yes;
  const auto is_unknown = [](const Largest& one) {
    return std::holds_alternative<Unavailable>(one.plan);
  };
  return std::ranges::all_of(answers, is_unknown) ? ExitCode::not_known : ExitCode::no;
}

/// A flag that asks for more than a recording tells; empty where none does.
std::string flag_of_specs(const Arguments& arguments) {
  if (arguments.largest) return "--largest";
  if (arguments.tokens) return "--tokens";
  if (arguments.within) return "--within";
  if (arguments.front) return "--front";
  if (arguments.explain_choice) return "--explain-choice";
  return arguments.implementations.empty() ? "" : "--implementation";
}

/// A recorded run on each GPU; nothing where the words name none.
std::optional<Outcome> plan_recorded(const Arguments& arguments, const Surroundings& surroundings) {
  Arguments any = arguments;  // plan takes several GPUs and counts, a recording no count
  any.gpus.clear();
  if (!any.counts.empty()) any.counts = {any.counts.front()};
  const auto job = find_recorded(any, arguments.words);
  if (!job.ok()) return refused(job.diagnostics());
  if (!job.value()) return std::nullopt;
  if (const std::string flag = flag_of_specs(arguments); !flag.empty()) {
    return refused({mistake(flag + " is for the plan of a spec, and this is a recorded run",
                            "the number that --at leaves open is searched")});
  }
  const RecordedJob& recorded = *job.value();
  const GpuSpec* own = recorded.names_gpu ? &recorded.hardware.gpu : nullptr;
  auto considered = gpus_to_consider(arguments, own);
  if (!considered.ok()) return refused(considered.diagnostics());
  std::vector<GpuSpec> gpus = std::move(considered).value();
  // The program ran on CUDA: of the whole catalog those that do.
  if (asks_for_all(arguments, own)) {
    std::erase_if(gpus, [](const GpuSpec& gpu) { return !gpu.compute_capability(); });
  }
  return plan_recorded(recorded, gpus, arguments, surroundings);
}

}  // namespace

Outcome run_plan(const Arguments& arguments, const Surroundings& surroundings) {
  if (auto recorded = plan_recorded(arguments, surroundings)) return *std::move(recorded);
  const auto choices = choices_of(arguments);
  if (!choices.ok()) return refused(choices.diagnostics());
  const Job& job = first_job(choices.value());
  if (std::holds_alternative<BudgetRecompute>(job.recompute())) {
    return refused({Diagnostic{Severity::error,
                               {},
                               "plan weighs recompute itself, against all of a GPU's memory",
                               "leave 'recompute: {budget: ...}' out, or write --free "
                               "training.recompute",
                               true}});
  }
  Checked<std::vector<GpuSpec>> gpus =
      gpus_to_consider(arguments, job.hardware.assumed ? nullptr : &job.hardware.gpu);
  if (!gpus.ok()) return refused(gpus.diagnostics());
  PlanRequest request{.job = job,
                      .gpus = std::move(gpus).value(),
                      .counts = counts_to_consider(arguments, job),
                      .prices = all_prices(),
                      .objective = arguments.objective,
                      .threads = threads_of(arguments)};
  choose_replays(arguments, request);
  SearchProgress progress(arguments, surroundings);
  request.on_step = [&progress](PlanStep step) { progress(step); };
  if (arguments.tokens) request.goal = {*arguments.tokens, arguments.within};
  Arguments chosen = arguments;  // the next command names the GPU that was found
  chosen.gpus.clear();
  chosen.counts.clear();
  const Question question = question_of(chosen, arguments.words, surroundings);
  if (arguments.largest) {
    const std::vector<Largest> largest = find_largest(request, *arguments.largest);
    const Report report = report_largest(request, *arguments.largest, largest, question);
    return {code_of(largest), shown(report, arguments, surroundings), choices.diagnostics()};
  }
  const ComparedPlans plans = compare_implementations(request, choices.value());
  const PlanAnswer& answer = plans.answer;
  PlanView view{.front = request.front, .choices = choices.value(), .compared = plans.compared};
  if (!answer.best.empty()) {
    view.winner = answer.best.front().choice;
    request.job = *choices.value()[view.winner].job;
  }
  if (arguments.explain_choice && !answer.best.empty()) {
    view.alternatives = alternatives_to(request, answer.best.front());
  }
  const Report report = report_plan(request, answer, question, view);
  return {code_of(answer), shown(report, arguments, surroundings), choices.diagnostics()};
}

}  // namespace memest
