#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "memest/plan/estimate.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"

namespace memest {
namespace {

constexpr Capability kAssumed{.value = 80, .assumed = true};

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const char* const end = std::to_address(text.end());
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

Capability capability_of(const GpuSpec& gpu) {
  const std::string_view text = gpu.compute_capability;
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) return kAssumed;
  const std::optional<int> major = whole_number(text.substr(0, point));
  const std::optional<int> minor = whole_number(text.substr(point + 1));
  if (!major || !minor) return kAssumed;
  // "9.0" is 90 and "12.0" is 120, as CUDA's architectures sm_90 and sm_120 are written.
  return {.value = *major * 10 + *minor, .assumed = false};
}

LoweringPolicy policy_of(const Job& job, std::int64_t pipeline_rank) {
  const GpuSpec& gpu = job.hardware.gpu;
  const int capability = capability_of(gpu).value;
  const std::int64_t multiprocessors = gpu.multiprocessors ? gpu.multiprocessors->value : 0;
  LoweringPolicy policy = job.training ? policy_of(*job.training, capability, multiprocessors)
                                       : policy_of(*job.inference, capability, multiprocessors);
  const Parallelism& parallelism = job.parallelism;
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
  for (const LayerSpan& span : stages_of(split, place)) {
    policy.parts.push_back({.first = span.first,
                            .count = span.count,
                            .embedding = span.first == 0,
                            .head = span.first + span.count == split.layers});
  }
  return policy;
}

}  // namespace memest
