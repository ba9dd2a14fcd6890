#include "space.hpp"

namespace memest {
namespace {

/// No device holds a larger one of any model worth training.
constexpr std::int64_t kLargestMicroBatch = std::int64_t{1} << 20;

std::vector<BatchChoice> divisors_of(std::int64_t sequences) {
  std::vector<BatchChoice> choices;
  std::vector<BatchChoice> above_root;
  for (std::int64_t divisor = 1; divisor <= sequences / divisor; ++divisor) {
    if (sequences % divisor != 0) continue;
    const std::int64_t other = sequences / divisor;
    choices.push_back({divisor, other});
    if (other != divisor) above_root.push_back({other, divisor});
  }
  choices.insert(choices.end(), above_root.rbegin(), above_root.rend());
  return choices;
}

}  // namespace

std::vector<BatchChoice> batch_choices(const Job& job, std::int64_t gpus) {
  const TrainingSpec& training = *job.training;
  if (job.global_batch_given) {
    const std::int64_t global_batch = job.global_batch();
    if (global_batch % gpus != 0) return {};
    const std::int64_t share = global_batch / gpus;
    if (!job.micro_batch_given) return divisors_of(share);
    if (share % training.micro_batch != 0) return {};
    return {{training.micro_batch, share / training.micro_batch}};
  }
  if (job.micro_batch_given) return {{training.micro_batch, training.gradient_accumulation}};
  std::vector<BatchChoice> choices;
  for (std::int64_t batch = 1; batch <= kLargestMicroBatch; batch *= 2) {
    choices.push_back({batch, training.gradient_accumulation});
  }
  return choices;
}

std::vector<Recompute> recompute_choices(const Job& job) {
  if (job.recompute_given) return {job.training->recompute};
  return {NoRecompute{}, SelectiveRecompute{}, FullRecompute{}};
}

std::vector<ZeroStage> zero_choices(const Job& job, std::int64_t gpus) {
  if (job.zero_given) return {job.parallelism.zero};
  if (gpus == 1) return {ZeroStage::none};
  if (job.training->recipe.gathered_units) return {ZeroStage::optimizer_gradients_weights};
  return {ZeroStage::none, ZeroStage::optimizer, ZeroStage::optimizer_gradients,
          ZeroStage::optimizer_gradients_weights};
}

}  // namespace memest
