#include <variant>

#include "memest/plan/estimate.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/spec/parallel/replicas.hpp"
#include "memest/spec/parallel/sharding.hpp"

namespace memest {

ComputeCapability lowered_capability(const GpuSpec& gpu) {
  return gpu.compute_capability().value_or(kAmpere);
}

LoweringPolicy policy_of(const Job& job, std::int64_t pipeline_rank) {
  const GpuSpec& gpu = job.hardware.gpu;
  const ComputeCapability capability = lowered_capability(gpu);
  const std::int64_t multiprocessors = gpu.multiprocessors ? gpu.multiprocessors->value : 0;
  LoweringPolicy policy = job.training ? policy_of(*job.training, capability, multiprocessors)
                                       : policy_of(*job.inference, capability, multiprocessors);
  const Parallelism& parallelism = job.parallelism;
  const Sharding sharding = sharding_of(job);
  const auto* zero = std::get_if<DeepSpeedZero>(&sharding);
  policy.in_pieces = zero != nullptr && zero->shards_weights();
  if (std::holds_alternative<FlatShards>(sharding)) policy.sharded_buffers = policy.weights;
  if (std::holds_alternative<RowShards>(sharding)) policy.sharded_buffers = DType::fp32;
  policy.layers_get_gradients = reduces_frozen_weights(job);
  if (job.training) policy.reporting = reporting_ranks(*job.training, parallelism);
  policy.copies_answers = finds_unused_parameters(job);
  policy.units_around_peft = shards_by<RowShards>(job) && job.model.adapter && job.training &&
                             row_of(job.training->implementation.loop).accelerate;
  policy.tensor = parallelism.tensor;
  policy.expert = parallelism.expert;
  policy.whole_experts = parallelism.whole_experts();
  // A context-parallel rank has an equal part of every sequence.
  policy.seq_len /= parallelism.context;
  policy.context = parallelism.context;
  policy.context_exchange = parallelism.context_exchange;
  policy.sequence_parallel = parallelism.sequence && parallelism.tensor > 1;
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  if (decoder == nullptr || parallelism.pipeline == 1) return policy;
  const PipelinePlace place = place_of(parallelism, pipeline_rank);
  const StageSplit split = job.stage_split(decoder->layers());
  for (std::int64_t chunk = 0; chunk < place.chunks; ++chunk) {
    const std::int64_t index = stage_index(place, chunk);
    const LayerSpan span = split.stage(index);
    policy.parts.push_back({.first = span.first,
                            .count = span.count,
                            .embedding = index == 0,
                            .head = index + 1 == split.stages()});
  }
  return policy;
}

}  // namespace memest
