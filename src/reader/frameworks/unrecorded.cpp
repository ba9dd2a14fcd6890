#include "reader/frameworks/unrecorded.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include "memest/spec/framework.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

constexpr NotRecorded kNotRecordedAnywhere[] = {
    {[](const Job& job) { return !std::holds_alternative<DecoderSpec>(job.model.architecture); },
     "of another model than a decoder", ""},
    {[](const Job& job) {
       return job.forward() != nullptr &&
              (!row_of(job.forward()->implementation.framework).saves_on_cpu ||
               job.forward()->implementation.loop != LoopKind::plain);
     },
     "in another loop than a plain one of PyTorch", "use 'implementation: transformers'"},
    {[](const Job& job) { return job.parallelism.ranks() > 1 || job.parallelism.fsdp.has_value(); },
     "on several GPUs", "set 'hardware.count' to 1 and leave 'parallelism' out"},
    {[](const Job& job) { return job.parallelism.offload.any(); }, "beside an offloaded optimizer",
     "leave one of the two out"},
    {[](const Job& job) { return job.training && job.training->offload_activations.has_value(); },
     "beside saved tensors on the host", "leave one of the two out"},
    {[](const Job& job) { return job.forward() != nullptr && job.forward()->replaces_modules(); },
     "beside Liger's kernels or float8 linears", "leave one of the two out"},
    {[](const Job& job) {
       return job.forward() != nullptr &&
              job.forward()->implementation.compile != CompileScope::off;
     },
     "beside compiled layers", "leave 'compile' out"},
};

/// Programs that were run under another release of PyTorch alone: eager decoders in
/// loops of PyTorch's own, on one GPU, with DDP and FSDP2.
constexpr NotRecorded kNotUnderOtherReleases[] = {
    {[](const Job& job) { return !job.training.has_value(); }, "without training", ""},
    {[](const Job& job) {
       const Framework framework = job.training->implementation.framework;
       return framework != Framework::transformers && framework != Framework::nanogpt &&
              framework != Framework::plain;
     },
     "in this implementation", ""},
    {[](const Job& job) { return !std::holds_alternative<DecoderSpec>(job.model.architecture); },
     "of another model than a decoder", ""},
    {[](const Job& job) { return job.training->implementation.compile != CompileScope::off; },
     "beside compiled layers", ""},
    {[](const Job& job) { return job.training->replaces_modules(); },
     "beside Liger's kernels or float8 linears", ""},
    {[](const Job& job) {
       const Parallelism& p = job.parallelism;
       return p.shards_flat() || (p.zero != ZeroStage::none && !p.fsdp) || p.offload.any() ||
              p.pipeline > 1 || p.tensor > 1 || p.context > 1;
     },
     "in this layout", ""},
};

}  // namespace

void check_torch_release(const Value& root, const Job& job, Diagnostics& diagnostics) {
  const ForwardSpec* forward = job.forward();
  if (forward == nullptr || forward->implementation.torch == kRecordedTorchRelease) return;
  const Value* section = root.find(job.training ? "training" : "inference");
  const Value* written = section->find("implementation")->find("torch");
  for (const NotRecorded& one : kNotUnderOtherReleases) {
    if (!one.asked(job)) continue;
    diagnostics.push_back(unavailable_at(
        written->span, "another release of PyTorch than 2.11 " + std::string(one.where),
        "leave 'torch' out"));
    return;
  }
  const GpuSpec& gpu = job.hardware.gpu;
  const std::optional<ComputeCapability> capability = gpu.compute_capability();
  if (forward->implementation.torch > TorchRelease::v2_6 || !capability ||
      *capability < kBlackwell) {
    return;
  }
  diagnostics.push_back(error_at(written->span, "PyTorch 2.6 has no kernels for this GPU",
                                 "2.7 is the first that has them"));
}

void refuse_unrecorded(const WrittenTechnique& technique, std::span<const NotRecorded> own,
                       const Job& job, Diagnostics& diagnostics) {
  const auto asked = [&job](const NotRecorded& one) { return one.asked(job); };
  const auto* found = std::ranges::find_if(kNotRecordedAnywhere, asked);
  const NotRecorded* refused = found == std::end(kNotRecordedAnywhere) ? nullptr : found;
  if (refused == nullptr) {
    const auto of_own = std::ranges::find_if(own, asked);
    if (of_own == own.end()) return;
    refused = &*of_own;
  }
  const std::string leave = std::string("leave '") + technique.key + "' out";
  const std::string hint = refused->hint;
  diagnostics.push_back(unavailable_at(technique.written.span,
                                       std::string(technique.noun) + " " + refused->where,
                                       hint.empty() ? leave : hint + ", or " + leave));
}

}  // namespace memest
