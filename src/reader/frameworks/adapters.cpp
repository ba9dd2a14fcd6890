#include "reader/frameworks/adapters.hpp"

#include <string>
#include <variant>

#include "memest/spec/framework.hpp"
#include "reader/frameworks/unrecorded.hpp"

namespace memest {
namespace {

/// They were trained by a plain loop and the Trainer on one GPU.
constexpr NotRecorded kNotRecordedWithAdapter[] = {
    {[](const Job& job) {
       const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
       return decoder != nullptr && !std::holds_alternative<SoftmaxAttention>(decoder->attention);
     },
     "with latent attention", ""},
    {[](const Job& job) { return job.model.experts() != nullptr; }, "beside experts", ""},
    {[](const Job& job) { return job.model.vision.has_value(); }, "with images", ""},
    {[](const Job& job) {
       return job.model.low_rank || job.model.shared_layers || job.model.quantized;
     },
     "beside compressed weights", "use 'lora'"},
    {[](const Job& job) {
       const LoopKind loop = job.training->implementation.loop;
       return loop != LoopKind::plain && loop != LoopKind::trainer;
     },
     "in this loop", "leave 'loop' out"},
    {[](const Job& job) {
       const Implementation& implementation = job.training->implementation;
       return implementation.torch != kRecordedTorchRelease ||
              implementation.transformers != TransformersRelease::v5_18;
     },
     "under another release of PyTorch or transformers", "leave 'torch' and 'transformers' out"},
    {[](const Job& job) {
       const Recipe& recipe = job.training->recipe;
       return recipe.weights == DType::fp16 || recipe.compute == DType::fp16;
     },
     "in fp16", "use 'precision: bf16', 'bf16-autocast', 'amp-bf16' or 'fp32'"},
    {[](const Job& job) {
       const Recompute& recompute = job.training->recompute;
       return !std::holds_alternative<NoRecompute>(recompute) &&
              !std::holds_alternative<FullRecompute>(recompute) &&
              !std::holds_alternative<ChosenRecompute>(recompute);
     },
     "beside other recompute than of whole layers", "use 'recompute: full' or none"},
};

/// As their papers write them.
std::string title(AdapterKind kind) {
  switch (kind) {
    case AdapterKind::lora:
      return "LoRA";
    case AdapterKind::dora:
      return "DoRA";
    case AdapterKind::ia3:
      return "IA3";
    case AdapterKind::vera:
      return "VeRA";
  }
  return {};
}

}  // namespace

void check_adapters(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || !job.model.adapter) return;
  const AdapterKind kind = job.model.adapter->kind;
  if (kind == AdapterKind::lora) return;
  const Value* written = root.find("training")->find("adapter");
  const std::string noun = title(kind);
  constexpr Beside kRecorded[] = {Beside::other_loop};
  refuse_unrecorded(
      {.noun = noun.c_str(), .key = "adapter", .written = *written, .recorded = kRecorded},
      kNotRecordedWithAdapter, job, diagnostics);
}

}  // namespace memest
