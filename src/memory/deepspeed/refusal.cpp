// The jobs in DeepSpeed's ZeRO that are not followed event by event.
#include <optional>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/deepspeed/partitioned_model.hpp"
#include "memory/states/flat_partitions.hpp"

namespace memest {

std::optional<Unavailable> partitioned_model_refusal(const Job& job) {
  const HostOffload& offload = job.parallelism.offload;
  if (offload.optimizer_on_nvme || offload.parameters_on_nvme) {
    return Unavailable{
        "the timeline of DeepSpeed's ZeRO 3 with a part on NVMe is not available yet"};
  }
  return std::nullopt;
}

namespace {

std::optional<Unavailable> adapted_refusal(const Job& job) {
  if (!job.model.adapter) return std::nullopt;
  if (job.parallelism.offload.any()) {
    return Unavailable{"adapters in DeepSpeed with a part on the host are not available yet"};
  }
  if (size_of(job.training->recipe.gradients) > size_of(job.training->recipe.weights)) {
    return Unavailable{
        "adapters in DeepSpeed with gradients summed in a wider type are not available yet"};
  }
  if (!job.model.adapter->whole_modules.empty()) {
    return Unavailable{
        "modules trained in full beside adapters in DeepSpeed are not available yet"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Unavailable> deepspeed_refusal(const Job& job) {
  if (is_megatron_deepspeed(job)) return std::nullopt;
  if (std::get<DeepSpeedZero>(sharding_of(job)).shards_weights()) {
    if (auto refused = partitioned_model_refusal(job)) return refused;
  }
  if (!job.training->recipe.master || job.training->recipe.autocast) {
    return Unavailable{
        "the timeline of DeepSpeed over other weights than 16-bit ones is not available yet"};
  }
  if (auto refused = adapted_refusal(job)) return refused;
  if (sums_whole_gradients(job)) {
    return Unavailable{
        "the timeline of DeepSpeed's ZeRO 1 with gradients summed in fp32, which is an optimizer "
        "of its own, is not available yet"};
  }
  const LoopRow& loop = row_of(job.training->implementation.loop);
  if (loop.trains && !loop.accelerate) {
    return Unavailable{
        "the timeline of DeepSpeed in another loop than a plain one or the Trainer's is not "
        "available yet"};
  }
  const Recipe& recipe = job.training->recipe;
  const bool wider = size_of(recipe.gradients) > size_of(recipe.weights);
  if (loop.accelerate && (wider || job.parallelism.offload.any())) {
    return Unavailable{
        "the timeline of DeepSpeed in the Trainer with a part on the host or gradients summed in "
        "a wider type is not available yet"};
  }
  return std::nullopt;
}

}  // namespace memest
