#include "memest/plan/largest.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/plan/in_parallel.hpp"
#include "memest/spec/framework.hpp"
#include "plan/layouts/memo.hpp"
#include "plan/search/search_forms.hpp"

namespace memest {
namespace {

/// Sequences are answered in whole steps of so many tokens.
constexpr std::int64_t kSequenceStep = 1024;
/// Beyond any GPU's memory: 2^20 sequences, 2^30 tokens, 2^20 layers.
constexpr std::int64_t kMostOfAKey = std::int64_t{1} << 20;

/// A batch of pairs grows by both answers, a sequence by many tokens.
std::int64_t step_of(const Job& job, Growth growth) {
  if (growth == Growth::sequence) return kSequenceStep;
  const bool pairs = job.training && row_of(job.training->implementation.loop).prefers;
  return growth == Growth::micro_batch && pairs ? 2 : 1;
}

/// The job with `value` steps of what grows; false where there is no such job.
bool grow(Job& job, Growth growth, std::int64_t value) {
  switch (growth) {
    case Growth::micro_batch:
      job.training->micro_batch = value * step_of(job, growth);
      job.given.micro_batch = true;
      job.given.global_batch = false;
      return true;
    case Growth::sequence:
      job.training->seq_len = value * step_of(job, growth);
      return true;
    case Growth::model: {
      auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
      if (decoder == nullptr || decoder->kinds.size() != 1) return false;
      LayerRun run = decoder->order.front();
      run.repeat = value;
      decoder->order = {run};
      return true;
    }
  }
  unreachable("everything that grows has its key");
}

/// Closed forms for all GPU types and counts: of each value of what grows, but for the micro-batch,
/// of which they have a letter. Several threads may ask at once.
class FormsOfValues {
 public:
  /// Models of several layers, all alike, take most forms from `job`'s own, if it is one. A
  /// recompute of the file's own may count layers.
  FormsOfValues(const Job& job, Growth growth) : growth_(growth) {
    const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
    const bool counts = job.training && recompute_choices(job).size() == 1;
    if (growth != Growth::model || decoder == nullptr || decoder->layers() == 1 || counts) return;
    if (!job.training || !has_layers_alike(job)) return;
    model_ = &entry_of(job, decoder->layers(), nullptr).forms;
  }

  /// `job` has that value.
  LayoutForms& of(const Job& job, std::int64_t value) {
    const std::int64_t key = growth_ == Growth::micro_batch ? 0 : value;
    return entry_of(job, key, value > 1 ? model_ : nullptr).forms;
  }

 private:
  struct Entry {
    Entry(Job of, LayoutForms* others)
        : job(std::move(of)), recomputes(recompute_choices(job)), forms(job, recomputes, others) {}

    Job job;
    std::vector<Recompute> recomputes;
    LayoutForms forms;
  };

  Entry& entry_of(const Job& job, std::int64_t key, LayoutForms* others) {
    return *entries_.at(key, [&] { return std::make_unique<Entry>(job, others); });
  }

  Growth growth_;
  Memo<std::int64_t, std::unique_ptr<Entry>> entries_;
  LayoutForms* model_ = nullptr;
};

class LargestSearch {
 public:
  LargestSearch(const PlanRequest& request, Growth growth, FormsOfValues& forms)
      : request_(request), growth_(growth), forms_(forms) {}

  /// The closed form finds where to begin; the answer is where the replay's verdict changes.
  Largest answer(std::size_t gpu, std::int64_t gpus) {
    largest_ = {.gpu = gpu, .gpus = gpus};
    std::int64_t fits = 0;
    std::int64_t refused = 1;
    // Doubling, then halving: 2 log2(n) closed forms.
    while (refused <= kMostOfAKey && !beyond_ && search(refused, Method::closed_form)) {
      fits = refused;
      refused *= 2;
    }
    while (refused - fits > 1) {
      const std::int64_t middle = fits + (refused - fits) / 2;
      (search(middle, Method::closed_form) ? fits : refused) = middle;
    }
    if (!beyond_) find_change(std::max<std::int64_t>(1, fits));
    largest_.value *= step_of(request_.job, growth_);
    return std::move(largest_);
  }

 private:
  enum class Method : std::uint8_t { closed_form, replay };

  /// Searches from `start` in doubling steps to either side of the change, then between them.
  void find_change(std::int64_t start) {
    std::int64_t fits = 0;
    std::int64_t refused = start;
    if (search(start, Method::replay)) {
      fits = start;
      refused = start + 1;
      // Gallops from the closed form's answer, which is near: an error of e costs 2 log2(e)
      // replays.
      for (std::int64_t step = 1; refused <= kMostOfAKey && search(refused, Method::replay);
           step *= 2) {
        fits = refused;
        refused += step;
      }
    } else {
      for (std::int64_t step = 1; refused > 1; step *= 2) {
        const std::int64_t less = std::max<std::int64_t>(1, refused - step);
        if (search(less, Method::replay)) {
          fits = less;
          break;
        }
        refused = less;
      }
    }
    while (refused - fits > 1) {
      const std::int64_t middle = fits + (refused - fits) / 2;
      (search(middle, Method::replay) ? fits : refused) = middle;
    }
  }

  /// Nothing but the refusal of the least is ever shown.
  static Refusals refusals_of(std::int64_t value) {
    return value == 1 ? Refusals::described : Refusals::outlined;
  }

  /// Whether something stands with `value` of what grows; by the replay it is kept.
  bool search(std::int64_t value, Method method) {
    PlanRequest request = request_;
    request.gpus = {request_.gpus[largest_.gpu]};
    request.counts = {largest_.gpus};
    request.threads = 1;
    request.finalists = request.misses = method == Method::replay ? 1 : 0;
    request.front = false;
    if (!grow(request.job, growth_, value)) {
      beyond_ = true;
      largest_.plan = Unavailable{"only models of equal layers grow"};
      return false;
    }
    PlanAnswer answer = request.job.training ? search_plans(request, forms_.of(request.job, value),
                                                            refusals_of(value))
                                             : search_plans(request);
    if (const auto* reason = std::get_if<Unavailable>(&answer.unavailable)) {
      beyond_ = largest_.value == 0;
      if (beyond_) largest_.plan = *reason;
      return false;
    }
    const bool fits = !answer.best.empty() && answer.best.front().verdict == Verdict::fits;
    if (method == Method::closed_form) return fits;
    std::vector<PlanVerdict>& rows = answer.best.empty() ? answer.refused : answer.best;
    rows.front().candidate.gpu = &request_.gpus[largest_.gpu];
    if (fits || largest_.value == 0) largest_.plan = std::move(rows.front());
    if (!fits) return false;
    largest_.value = value;
    largest_.parameters = count_parameters(request.job).total;
    return true;
  }

  const PlanRequest& request_;
  Growth growth_;
  FormsOfValues& forms_;
  Largest largest_;
  bool beyond_ = false;  ///< nothing of the kind can be searched
};

}  // namespace

std::vector<Largest> find_largest(const PlanRequest& request, Growth growth) {
  FormsOfValues forms(request.job, growth);
  const std::size_t counts = request.counts.size();
  std::vector<Largest> answers(request.gpus.size() * counts);
  in_parallel(answers.size(), request.threads, [&](std::size_t i) {
    const std::int64_t gpus = request.counts[i % counts];
    answers[i] = LargestSearch(request, growth, forms).answer(i / counts, gpus);
  });
  return answers;
}

}  // namespace memest
