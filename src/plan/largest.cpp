#include "memest/plan/largest.hpp"

#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/graph/parameters.hpp"

namespace memest {
namespace {

/// Sequences are answered in whole steps of so many tokens.
constexpr std::int64_t kSequenceStep = 1024;
/// Beyond any GPU's memory: 2^20 sequences, 2^30 tokens, 2^20 layers.
constexpr std::int64_t kMost = std::int64_t{1} << 20;

/// The job with `value` of what grows; false where there is no such job.
bool grow(Job& job, Growth growth, std::int64_t value) {
  switch (growth) {
    case Growth::micro_batch:
      job.training->micro_batch = value;
      job.given.micro_batch = true;
      job.given.global_batch = false;
      return true;
    case Growth::sequence:
      job.training->seq_len = value * kSequenceStep;
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

class LargestSearch {
 public:
  LargestSearch(const PlanRequest& request, Growth growth) : request_(request), growth_(growth) {}

  Largest answer(std::size_t gpu, std::int64_t gpus) {
    Largest largest{.gpu = gpu, .gpus = gpus};
    std::int64_t refused = 1;
    while (refused <= kMost && try_value(largest, refused)) refused *= 2;
    while (refused - largest.value > 1) {
      const std::int64_t middle = largest.value + (refused - largest.value) / 2;
      if (!try_value(largest, middle)) refused = middle;
    }
    if (growth_ == Growth::sequence) largest.value *= kSequenceStep;
    return largest;
  }

 private:
  bool try_value(Largest& largest, std::int64_t value) {
    PlanRequest request = request_;
    request.gpus = {request_.gpus[largest.gpu]};
    request.counts = {largest.gpus};
    request.finalists = 0;
    if (!grow(request.job, growth_, value)) {
      largest.plan = Unavailable{"only models of equal layers grow"};
      return false;
    }
    PlanAnswer answer = search_plans(request);
    if (const auto* reason = std::get_if<Unavailable>(&answer.unavailable)) {
      if (largest.value == 0) largest.plan = *reason;
      return false;
    }
    const bool fits = !answer.best.empty() && answer.best.front().verdict == Verdict::fits;
    std::vector<PlanVerdict>& rows = answer.best.empty() ? answer.refused : answer.best;
    rows.front().candidate.gpu = &request_.gpus[largest.gpu];
    if (fits || largest.value == 0) largest.plan = std::move(rows.front());
    if (!fits) return false;
    largest.value = value;
    largest.parameters = count_parameters(request.job.model).total;
    return true;
  }

  const PlanRequest& request_;
  Growth growth_;
};

}  // namespace

std::vector<Largest> find_largest(const PlanRequest& request, Growth growth) {
  LargestSearch search(request, growth);
  std::vector<Largest> answers;
  for (std::size_t gpu = 0; gpu < request.gpus.size(); ++gpu) {
    for (const std::int64_t count : request.counts) answers.push_back(search.answer(gpu, count));
  }
  return answers;
}

}  // namespace memest
