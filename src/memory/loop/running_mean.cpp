#include "memory/loop/running_mean.hpp"

#include <utility>

#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// token_counts: raw, with the prompt's template, and with padding.
constexpr std::int64_t kTokenCounts = 3;
/// MeanMetric has a value and a weight, Running those of every loss in its window; add_state()
/// keeps what each begins with beside it.
constexpr std::int64_t kStatesOfMean = 4;

}  // namespace

RunningMean::RunningMean(const TrainingSpec& training, Recorder& recorder) : recorder_(recorder) {
  const std::int64_t states = kStatesOfMean * (1 + training.gradient_accumulation);
  for (std::int64_t i = 0; i < states; ++i) {
    recorder_.allocate(size_of(DType::fp32),
                       loop_label(Holding::buffers, LoopTensor::reported_loss));
  }
  for (std::int64_t i = 0; i < kTokenCounts; ++i) {
    recorder_.allocate(size_of(DType::int64), loop_label(Holding::buffers, LoopTensor::targets));
  }
}

// metrics["total_tokens"]: the counts times the ranks.
void RunningMean::report() {
  const Label label = loop_label(Holding::temporaries, LoopTensor::targets);
  for (std::int64_t i = 1; i < kTokenCounts; ++i) {
    recorder_.make_and_free(size_of(DType::int64), label);
  }
  tokens_ = recorder_.make(size_of(DType::int64), label);
}

}  // namespace memest
