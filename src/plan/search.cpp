#include "memest/plan/search.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "memest/time/flops.hpp"
#include "plan_cache.hpp"
#include "refusal.hpp"
#include "space.hpp"

namespace memest {
namespace {

/// A candidate with what its choice depends on.
struct Evaluated {
  PlanCandidate candidate;
  std::size_t recompute = 0;  ///< index of the candidate's recompute
  MemoryEstimate memory;
  Verdict verdict = Verdict::does_not_fit;
  double seconds_per_token = 0;  ///< infinite where the time is unavailable
};

class PlanSearch {
 public:
  explicit PlanSearch(const PlanRequest& request)
      : request_(request), job_(request.job), recomputes_(recompute_choices(request.job)) {}

  PlanAnswer answer() {
    for (const GpuSpec& gpu : request_.gpus) {
      job_.hardware.gpu = gpu;
      device_ = class_of(gpu);
      cache_.drop_prices();
      set_price(gpu);
      for (const std::int64_t count : request_.counts) {
        if (request_.job.model.adapter && count > 1) continue;  // answered on one GPU only
        search(gpu, count);
        if (!std::holds_alternative<std::monostate>(answer_.unavailable)) return answer_;
      }
    }
    rank();
    return std::move(answer_);
  }

 private:
  void set_price(const GpuSpec& gpu) {
    const Price* chosen = nullptr;
    for (const Price& price : request_.prices) {
      if (price.gpu != gpu.slug) continue;
      if (chosen == nullptr || (price.is_default && !chosen->is_default)) chosen = &price;
    }
    job_.hardware.price.reset();
    job_.hardware.price_source.clear();
    if (chosen == nullptr) return;
    job_.hardware.price = chosen->price;
    job_.hardware.price_source = chosen->source;
  }

  void search(const GpuSpec& gpu, std::int64_t count) {
    job_.hardware.count = count;
    job_.parallelism.data = count;
    laws_.reset();
    if (auto known = laws_of(job_); std::holds_alternative<GpuLaws>(known)) {
      laws_ = std::get<GpuLaws>(std::move(known));
    }
    chosen_.reset();
    nearest_.reset();
    const std::vector<BatchChoice> batches = batch_choices(request_.job, count);
    if (batches.empty()) {
      refuse_batch(gpu, count);
      return;
    }
    for (const ZeroStage zero : zero_choices(request_.job, count)) {
      for (std::size_t i = 0; i < recomputes_.size(); ++i) {
        if (!try_batches({.gpu = &gpu,
                          .gpus = count,
                          .micro_batch = 1,
                          .gradient_accumulation = 1,
                          .recompute = recomputes_[i],
                          .zero = zero},
                         i, batches)) {
          return;
        }
      }
    }
    if (chosen_) {
      answer_.best.push_back(describe(*chosen_));
    } else {
      answer_.refused.push_back(describe(*nearest_));
    }
  }

  /// Ascending micro-batches up to the first that does not fit: a larger one never needs less.
  /// False: there is no graph.
  bool try_batches(PlanCandidate candidate, std::size_t recompute,
                   const std::vector<BatchChoice>& batches) {
    for (const BatchChoice& batch : batches) {
      candidate.micro_batch = batch.micro_batch;
      candidate.gradient_accumulation = batch.gradient_accumulation;
      apply(candidate);
      const auto& graph = cache_.graph_of(job_);
      if (const auto* reason = std::get_if<Unavailable>(&graph)) {
        answer_.unavailable = *reason;
        return false;
      }
      ++answer_.candidates;
      const Evaluated evaluated = evaluate(std::get<Graph>(graph), candidate, recompute);
      consider(evaluated);
      if (evaluated.verdict == Verdict::does_not_fit) return true;
    }
    return true;
  }

  void apply(const PlanCandidate& candidate) {
    job_.training->micro_batch = candidate.micro_batch;
    job_.training->gradient_accumulation = candidate.gradient_accumulation;
    job_.training->recompute = candidate.recompute;
    job_.parallelism.zero = candidate.zero;
  }

  LedgerEntry& ledger_of(const Graph& graph, const Evaluated& evaluated) {
    const LedgerKey key{.device = device_,
                        .graph = &graph,
                        .accumulates = evaluated.candidate.gradient_accumulation > 1,
                        .gpus = evaluated.candidate.gpus,
                        .zero = evaluated.candidate.zero,
                        .recompute = evaluated.recompute};
    return cache_.ledger_of(key, graph, job_);
  }

  Evaluated evaluate(const Graph& graph, const PlanCandidate& candidate, std::size_t recompute) {
    Evaluated evaluated{.candidate = candidate,
                        .recompute = recompute,
                        .memory = {},
                        .seconds_per_token = std::numeric_limits<double>::infinity()};
    evaluated.memory =
        peak_of(ledger_of(graph, evaluated), candidate.micro_batch, job_.training->seq_len);
    evaluated.verdict = judge(evaluated.memory, capacity_of(job_.hardware));
    if (evaluated.verdict == Verdict::does_not_fit) return evaluated;
    if (!laws_) return evaluated;
    const StepWork& work = cache_.work_of(graph, job_, recompute);
    const Seconds step =
        expected_step_time(work, job_, *laws_, cache_.prices_of(graph, job_, work, *laws_));
    evaluated.seconds_per_token = step.value() / (static_cast<double>(job_.global_batch()) *
                                                  static_cast<double>(job_.training->seq_len));
    return evaluated;
  }

  /// Whether `left` is the better answer for one GPU type and count. Of equals the one found first
  /// stays.
  static bool is_better(const Evaluated& left, const Evaluated& right) {
    if (left.verdict != right.verdict) return left.verdict == Verdict::fits;
    if (left.verdict != Verdict::fits) return left.memory.high() < right.memory.high();
    if (left.seconds_per_token != right.seconds_per_token) {
      return left.seconds_per_token < right.seconds_per_token;
    }
    return false;
  }

  void consider(const Evaluated& evaluated) {
    if (evaluated.verdict == Verdict::does_not_fit) {
      if (!nearest_ || evaluated.memory.device() < nearest_->memory.device()) {
        nearest_ = evaluated;
      }
    } else if (!chosen_ || is_better(evaluated, *chosen_)) {
      chosen_ = evaluated;
    }
  }

  PlanVerdict describe(const Evaluated& evaluated) {
    apply(evaluated.candidate);
    const Graph& graph = std::get<Graph>(cache_.graph_of(job_));
    LedgerEntry& entry = ledger_of(graph, evaluated);
    const Ledger& ledger = entry.ledger;
    const MemoryEstimate memory = estimate_memory(
        ledger, bindings_at(ledger, job_.training->micro_batch, job_.training->seq_len));
    const Capacity capacity = capacity_of(job_.hardware);
    const Bytes taken_off = capacity.allocator_limit ? memory.outside : Bytes();

    PlanVerdict verdict;
    verdict.candidate = evaluated.candidate;
    verdict.verdict = evaluated.verdict;
    verdict.device = memory.device() - taken_off;
    verdict.low = memory.low() - (capacity.allocator_limit ? memory.outside_low : Bytes());
    verdict.high = memory.high() - (capacity.allocator_limit ? memory.outside_high : Bytes());
    verdict.capacity = capacity.bytes;
    verdict.largest_terms = largest_terms(ledger, memory);
    verdict.time = estimate_step_time(cache_.work_of(graph, job_, evaluated.recompute), job_,
                                      count_flops(graph, job_));
    verdict.cost = cost(verdict.time);
    if (verdict.verdict != Verdict::fits) {
      verdict.reason = reason_of(verdict);
      verdict.lever = lever_text(levers(entry), memory, capacity);
    }
    return verdict;
  }

  const std::vector<Lever>& levers(LedgerEntry& entry) {
    const std::int64_t micro_batch = job_.training->micro_batch;
    const auto found = entry.levers.find(micro_batch);
    if (found != entry.levers.end()) return found->second;
    return entry.levers.emplace(micro_batch, levers_of(job_)).first->second;
  }

  [[nodiscard]] std::variant<CostEstimate, Unavailable> cost(
      const std::variant<TimeEstimate, Unavailable>& time) const {
    if (!job_.hardware.price) {
      return Unavailable{"no price is known for " + job_.hardware.gpu.name};
    }
    if (const auto* reason = std::get_if<Unavailable>(&time)) return *reason;
    return cost_of(job_, *job_.hardware.price, std::get<TimeEstimate>(time).step);
  }

  void refuse_batch(const GpuSpec& gpu, std::int64_t count) {
    const Unavailable reason{"the global batch of " + std::to_string(request_.job.global_batch()) +
                             " sequences does not divide into " + std::to_string(count) +
                             " equal shares of whole micro-batches"};
    PlanVerdict verdict;
    verdict.candidate.gpu = &gpu;
    verdict.candidate.gpus = count;
    verdict.verdict = Verdict::does_not_fit;
    verdict.capacity = capacity_of(job_.hardware).bytes;
    verdict.time = reason;
    verdict.cost = reason;
    verdict.reason = reason.sentence;
    answer_.refused.push_back(std::move(verdict));
  }

  void rank() {
    const auto key = [](const PlanVerdict& verdict) {
      constexpr double kUnknown = std::numeric_limits<double>::infinity();
      const auto* cost = std::get_if<CostEstimate>(&verdict.cost);
      const auto* time = std::get_if<TimeEstimate>(&verdict.time);
      return std::tuple(verdict.verdict != Verdict::fits,
                        cost != nullptr ? cost->per_billion_tokens.value() : kUnknown,
                        time != nullptr ? -time->tokens_per_second_per_gpu *
                                              static_cast<double>(verdict.candidate.gpus)
                                        : kUnknown);
    };
    std::stable_sort(
        answer_.best.begin(), answer_.best.end(),
        [&](const PlanVerdict& left, const PlanVerdict& right) { return key(left) < key(right); });
  }

  const PlanRequest& request_;
  Job job_;  ///< the candidate in hand
  DeviceClass device_;
  std::vector<Recompute> recomputes_;
  PlanCache cache_;
  std::optional<GpuLaws> laws_;  ///< of the GPU in hand; none where its steps have no time
  std::optional<Evaluated> chosen_;
  std::optional<Evaluated> nearest_;
  PlanAnswer answer_;
};

}  // namespace

PlanAnswer search_plans(const PlanRequest& request) {
  if (!request.job.training) {
    PlanAnswer answer;
    answer.unavailable =
        Unavailable{request.job.inference ? "plans of inference are not available yet: `memest "
                                            "estimate --gpu` answers for one GPU"
                                          : "the spec describes a model without training"};
    return answer;
  }
  if (request.job.training->implementation.framework == Framework::megatron) {
    PlanAnswer answer;
    answer.unavailable = Unavailable{
        "plans of Megatron-core are not available yet: `memest estimate` answers for a spec"};
    return answer;
  }
  if (auto reason = beyond_the_closed_form(request.job)) {
    PlanAnswer answer;
    answer.unavailable = *std::move(reason);
    return answer;
  }
  const bool alone = std::ranges::find(request.counts, 1) != request.counts.end();
  if (request.job.model.adapter && !alone) {
    PlanAnswer answer;
    answer.unavailable = Unavailable{"adapters trained on several GPUs are not available yet"};
    return answer;
  }
  return PlanSearch(request).answer();
}

}  // namespace memest
