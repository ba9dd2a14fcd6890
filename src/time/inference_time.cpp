#include "memest/time/inference_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/time/prices.hpp"
#include "memest/time/work.hpp"
#include "time/launch_rate.hpp"
#include "time/step_share.hpp"

namespace memest {
namespace {

/// The choice of a pass's tokens by generate(), beside the model's own operations.
struct Choice {
  double kernels = 0;           ///< launched for a pass, counted under transformers 5.17
  double bytes_of_a_logit = 0;  ///< read and written for every score of the vocabulary
};
/// The logits are widened (6) and argmax reads them (4).
constexpr Choice kGreedy{39, 10};
/// Widened (6), topk (4), mask (5), masked_fill (9), softmax (8), exponential_ (4), div (12),
/// argmax (4).
constexpr Choice kSampling{46, 52};
/// Widened (6), log_softmax (8), the beams' sums (12), topk (4).
constexpr Choice kBeams{86, 30};

const Choice& choice_of(const InferenceSpec& inference) {
  if (inference.beams() > 1) return kBeams;
  return inference.generation && inference.generation->samples ? kSampling : kGreedy;
}

/// Seconds that a pass's kernels take, and how many they are.
struct PassKernels {
  double fast = 0;
  double expected = 0;
  double slow = 0;
  double launched = 0;
  std::array<double, 6> by_bound{};  ///< of `expected`
  LawOrigin origin;
  double longest = 0;

  void add(const CallPrice& price, double times) {
    fast += times * price.fast;
    expected += times * price.expected;
    slow += times * price.slow;
    by_bound[static_cast<std::size_t>(price.bound)] += times * price.expected;
    if (times * price.expected > longest) {
      longest = times * price.expected;
      origin = price.origin;
    }
  }

  [[nodiscard]] Bound bound() const {
    const auto most = std::ranges::max_element(by_bound);
    return static_cast<Bound>(most - by_bound.begin());
  }
};

class PassTimer {
 public:
  PassTimer(const Graph& graph, const Job& job, const GpuLaws& laws)
      : graph_(graph), inference_(*job.inference), gpu_(job.hardware.gpu), laws_(laws) {}

  [[nodiscard]] PassKernels prefill() const {
    const Bindings sizes = sizes_of(graph_, inference_);
    PassKernels kernels = kernels_of(graph_.order, sizes);
    if (inference_.generation) add_choice(sizes, kernels);
    return kernels;
  }

  /// The pass of one token a sequence over a cache of `past` tokens.
  [[nodiscard]] PassKernels decode(const DecodePass& pass, std::int64_t past) const {
    Bindings sizes = sizes_of(graph_, inference_);
    sizes.set(Symbol::cached_keys, past + 1);
    PassKernels kernels = kernels_of(pass.order, sizes);
    add_choice(sizes, kernels);
    if (inference_.beams() > 1) add_reordering(pass, sizes, kernels);
    return kernels;
  }

  [[nodiscard]] ForwardTime time_of(const PassKernels& kernels) const {
    ForwardTime time;
    time.kernels = Seconds(kernels.expected);
    time.host = Seconds(kernels.launched * kEagerLaunch.expected);
    time.expected = std::max(time.kernels, time.host);
    time.low = Seconds(std::max(kernels.fast, kernels.launched * kEagerLaunch.fast));
    // No forward was recorded whose kernels the GPU waits for: at most what eager training steps
    // took over theirs.
    const double share = step_share({gpu_, inference_.implementation.framework}, Outlook::slow);
    time.high = Seconds(std::max(kernels.slow / share, kernels.launched * kEagerLaunch.slow));
    time.launched = std::llround(kernels.launched);
    time.bound = time.host > time.kernels ? Bound::launch : kernels.bound();
    return time;
  }

 private:
  [[nodiscard]] PassKernels kernels_of(std::span<const BlockRun> order,
                                       const Bindings& sizes) const {
    PassKernels kernels;
    for (const OpWork& op : forward_work_of(graph_, order, sizes, inference_)) {
      kernels.add(price_of_calls(op.forward_calls, laws_), op.executions);
      kernels.launched += op.executions * static_cast<double>(op.forward_calls.size());
    }
    return kernels;
  }

  void add_stream(double bytes, double launches, PassKernels& kernels) const {
    StreamShape shape{.op = StreamOp::copy};
    shape.bytes = std::llround(bytes);
    if (shape.bytes > 0) kernels.add(laws_.price(shape), 1);
    kernels.launched += launches;
  }

  void add_choice(const Bindings& sizes, PassKernels& kernels) const {
    const Choice& choice = choice_of(inference_);
    const auto logits = static_cast<double>(inference_.micro_batch) *
                        static_cast<double>(sizes.at(Symbol::vocab_size));
    add_stream(choice.bytes_of_a_logit * logits, choice.kernels, kernels);
  }

  /// Cache.reorder_cache: index_select reads and writes each layer's keys, then its values.
  void add_reordering(const DecodePass& pass, const Bindings& sizes, PassKernels& kernels) const {
    for (const BlockRun& run : pass.order) {
      for (const Tensor& tensor : graph_.blocks[run.block].tensors) {
        if (tensor.cache_part != CachePart::after) continue;
        const auto repeat = static_cast<double>(run.repeat);
        add_stream(repeat * 2 * tensor.bytes().bytes(sizes).as_double(), repeat, kernels);
      }
    }
  }

  const Graph& graph_;
  const InferenceSpec& inference_;
  const GpuSpec& gpu_;
  const GpuLaws& laws_;
};

/// Seconds of all passes behind the prompts'. Between the ends of a stretch in which the same
/// operations run, kernels' times grow with the cache, nearly along a line: trapezoids over its
/// halves.
void add_decoding(const Graph& graph, const InferenceSpec& inference, const PassTimer& timer,
                  InferenceTime& answer) {
  const std::int64_t behind = inference.seq_len + inference.generation->tokens - 1;
  for (std::size_t i = 0; i < graph.decoding.size(); ++i) {
    const DecodePass& pass = graph.decoding[i];
    const std::int64_t next = i + 1 < graph.decoding.size() ? graph.decoding[i + 1].first : behind;
    const std::int64_t end = std::min(next, behind);
    if (end <= pass.first) continue;
    const std::int64_t last = end - 1;
    const std::array points{pass.first, (pass.first + last) / 2, last};
    std::array<ForwardTime, points.size()> times;
    std::ranges::transform(points, times.begin(), [&](std::int64_t past) {
      return timer.time_of(timer.decode(pass, past));
    });
    if (!answer.first_token) answer.first_token = times.front();
    answer.last_token = times.back();
    const auto sum = [&](Seconds ForwardTime::*end_of_interval) {
      const auto at = [&](std::size_t point) { return (times[point].*end_of_interval).value(); };
      const auto early = static_cast<double>(points[1] - points[0]);
      const auto late = static_cast<double>(points[2] - points[1]);
      // Along a line n + 1 passes are n means of neighbours, and half of both ends.
      return Seconds((at(0) + at(2)) / 2 + early * (at(0) + at(1)) / 2 +
                     late * (at(1) + at(2)) / 2);
    };
    answer.whole += sum(&ForwardTime::expected);
    answer.low += sum(&ForwardTime::low);
    answer.high += sum(&ForwardTime::high);
  }
}

}  // namespace

std::variant<InferenceTime, Unavailable> estimate_inference_time(const Graph& graph,
                                                                 const Job& job) {
  expect(job.inference.has_value(), "a job without inference has no forward to time");
  const InferenceSpec& inference = *job.inference;
  const GpuSpec& gpu = job.hardware.gpu;
  if (inference.implementation.compile != CompileScope::off) {
    return Unavailable{"no rate is known at which the host launches compiled layers"};
  }
  const auto peak = gpu.peak.find(inference.recipe.compute);
  if (peak == gpu.peak.end() || peak->second.value.value() <= 0) {
    return Unavailable{"no " + std::string(name_of(inference.recipe.compute)) +
                       " rate is known for " + gpu.name};
  }
  if (!gpu.memory_bandwidth) {
    return Unavailable{"no memory bandwidth is known for " + gpu.name};
  }
  const GpuLaws laws(gpu);
  const PassTimer timer(graph, job, laws);
  const PassKernels prompts = timer.prefill();
  InferenceTime answer;
  answer.prefill = timer.time_of(prompts);
  answer.whole = answer.prefill.expected;
  answer.low = answer.prefill.low;
  answer.high = answer.prefill.high;
  answer.origin = prompts.origin;
  answer.rule =
      "a pass takes as long as its kernels by the laws of their times, or as the host takes to "
      "launch them one after another, whichever is longer";
  answer.host_source =
      "a kernel in 10 to 28 us, in the median 22, by published latencies of a token on five "
      "machines";
  if (inference.generation) add_decoding(graph, inference, timer, answer);
  const std::int64_t tokens =
      inference.generation ? inference.generation->tokens : inference.seq_len;
  answer.tokens_per_second =
      static_cast<double>(inference.prompts()) * static_cast<double>(tokens) / answer.whole.value();
  return answer;
}

}  // namespace memest
