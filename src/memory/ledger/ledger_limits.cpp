// The jobs that the closed form has no formulas for.
#include <variant>

#include "memest/graph/parameters.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/deepspeed/partitioned_model.hpp"
#include "memory/sharding/fsdp_habits.hpp"

namespace memest {

namespace {

/// Megatron-core's shares of what checkpoints keep.
bool distributes(const Recompute& recompute) {
  const auto* full = std::get_if<FullRecompute>(&recompute);
  return full != nullptr && full->distribute;
}

}  // namespace

std::optional<Unavailable> beyond_the_formulas(const Job& job) {
  if (job.model.adapter && shards_by<DeepSpeedZero>(job)) {
    if (auto refused = deepspeed_refusal(job)) return refused;
  }
  if (job.model.adapter && job.parallelism.data > 1 && !shards_by<ReplicasOfDdp>(job)) {
    return Unavailable{
        "the closed form of adapters that are trained over shards is not available yet: events "
        "alone answer"};
  }
  if (job.model.adapter && job.model.adapter->parallel) {
    return Unavailable{
        "the closed form of adapters of Megatron's layers is not available yet: events alone "
        "answer"};
  }
  // Its peak may lie in the norm of one weight, which grows with no batch.
  if (job.model.adapter && job.model.adapter->kind == AdapterKind::dora) {
    return Unavailable{"the closed form of DoRA is not available yet: events alone answer"};
  }
  // Inputs that nodes name last through the backward, and as long as the loop keeps the loss.
  if (job.training && job.model.quantized && job.model.quantized->format == WeightFormat::int8) {
    return Unavailable{"the closed form of LLM.int8() is not available yet: events alone answer"};
  }
  if (is_megatron_deepspeed(job)) {
    return Unavailable{
        "the closed form of DeepSpeed around Megatron's layers is not available yet: events alone "
        "answer"};
  }
  if (job.training && shards_by<BucketShards>(job)) {
    return Unavailable{
        "the closed form of Megatron-FSDP is not available yet: events alone answer"};
  }
  if (job.training && job.training->steps_in_backward) {
    return Unavailable{
        "the closed form of an optimizer in the backward is not available yet: events alone "
        "answer"};
  }
  if (job.training && job.training->saves_on_host()) {
    return Unavailable{
        "the closed form of saved tensors on the host is not available yet: events alone answer"};
  }
  if (job.training && job.training->teacher != nullptr) {
    return Unavailable{
        "the closed form of a second model in the loss is not available yet: events alone answer"};
  }
  if (job.model.vision) {
    if (auto unused = unused_refusal(job, parameters_of(job.model))) return unused;
    return Unavailable{
        "the closed form of a model with images is not available yet: events alone answer"};
  }
  if (job.model.shared_layers) {
    return Unavailable{
        "the closed form of layers that share weights is not available yet: events alone answer"};
  }
  if (distributes(job.recompute())) {
    return Unavailable{"the closed form of this recompute is not available yet"};
  }
  return std::nullopt;
}

std::optional<Unavailable> beyond_the_closed_form(const Job& job) {
  // A job that does not run is refused before one that events alone answer.
  if (auto reason = gathers_refusal(job)) return reason;
  if (auto reason = beyond_the_formulas(job)) return reason;
  if (job.inference && job.inference->generation) {
    // Every pass asks for blocks a little larger than those that it gives back.
    return Unavailable{
        "the closed form knows no segments, so not what a growing key-value cache leaves between "
        "its blocks; the events of so many tokens are too many to be followed"};
  }
  // The closed form adds up tensors; roundup_power2_divisions or expandable_segments change blocks.
  if (job.allocator == AllocatorSettings()) return {};
  return Unavailable{"the closed form knows no segments, so not what 'allocator' changes in them"};
}

}  // namespace memest
