#include "reader/second_models/average.hpp"

#include <variant>

#include "memest/spec/framework.hpp"
#include "reader/frameworks/unrecorded.hpp"

namespace memest {
namespace {

bool has_sinks(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  const auto* softmax =
      decoder == nullptr ? nullptr : std::get_if<SoftmaxAttention>(&decoder->attention);
  return softmax != nullptr && softmax->sinks;
}

constexpr NotRecorded kNotRecordedWithAverage[] = {
    {[](const Job& job) { return !job.training.has_value(); }, "without training", ""},
    {[](const Job& job) { return !trains_in_replicas(job); },
     "over several GPUs in another way than as whole replicas (DistributedDataParallel)",
     "leave 'fsdp', 'zero', 'tensor', 'pipeline' and 'context' out"},
    {[](const Job& job) { return job.training->recipe.casts_gathered(); },
     "under FSDP2's mixed precision", "use fp32, bf16, amp-bf16 or amp-fp16"},
    {[](const Job& job) { return job.training->recipe.master.has_value(); },
     "beside a master copy of the weights", "use fp32, bf16, amp-bf16 or amp-fp16"},
    {[](const Job& job) { return job.model.adapter.has_value(); }, "beside adapters",
     "leave 'adapter' out"},
    {[](const Job& job) {
       return job.model.low_rank || job.model.shared_layers || job.model.quantized;
     },
     "beside a compressed model", "leave 'compression' out"},
    {[](const Job& job) { return job.model.vision.has_value(); }, "beside images",
     "set 'text_only' to true"},
    {[](const Job& job) { return job.training->teacher != nullptr; }, "beside a teacher",
     "leave 'teacher' out"},
    // deepcopy() walks a module's own tensors before its children's, Module.to() behind them.
    {has_sinks, "of attention sinks", ""},
    kUnderOtherReleases,
};

}  // namespace

void check_average(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || !job.training->averages_weights) return;
  constexpr Beside kRecorded[] = {Beside::several_gpus};
  refuse_unrecorded({.noun = "a moving average of the weights",
                     .key = "ema",
                     .written = *root.find("training")->find("ema"),
                     .recorded = kRecorded},
                    kNotRecordedWithAverage, job, diagnostics);
}

}  // namespace memest
