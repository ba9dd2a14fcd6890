#include "reader/frameworks/unrecorded.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

constexpr const char* kInOtherLoop = "in another loop than a plain one of PyTorch";
constexpr const char* kUsePlainLoop = "use 'implementation: transformers'";

struct MostlyNotRecorded {
  Beside beside;
  NotRecorded row;
};

constexpr MostlyNotRecorded kMostlyNotRecorded[] = {
    {Beside::other_model,
     {[](const Job& job) { return !std::holds_alternative<DecoderSpec>(job.model.architecture); },
      "of another model than a decoder", ""}},
    {Beside::other_program,
     {[](const Job& job) {
        return job.forward() != nullptr &&
               !row_of(job.forward()->implementation.framework).saves_on_cpu;
      },
      kInOtherLoop, kUsePlainLoop}},
    {Beside::other_loop,
     {[](const Job& job) {
        return job.forward() != nullptr && job.forward()->implementation.loop != LoopKind::plain;
      },
      kInOtherLoop, kUsePlainLoop}},
    {Beside::several_gpus,
     {[](const Job& job) { return job.parallelism.ranks() > 1 || job.parallelism.fsdp; },
      "on several GPUs", "set 'hardware.count' to 1 and leave 'parallelism' out"}},
    {Beside::offloaded_optimizer,
     {[](const Job& job) { return job.parallelism.offload.any(); }, "beside an offloaded optimizer",
      "leave one of the two out"}},
    {Beside::saved_on_host,
     {[](const Job& job) { return job.training && job.training->saves_on_host(); },
      "beside saved tensors on the host", "leave one of the two out"}},
    {Beside::replaced_modules,
     {[](const Job& job) { return job.forward() != nullptr && job.forward()->replaces_modules(); },
      "beside Liger's kernels or float8 linears", "leave one of the two out"}},
    {Beside::compiled,
     {[](const Job& job) {
        return job.forward() != nullptr &&
               job.forward()->implementation.compile != CompileScope::off;
      },
      "beside compiled layers", "leave 'compile' out"}},
};

/// Null where the job asks for nothing beside which `technique` was not recorded.
const NotRecorded* refused_row(const WrittenTechnique& technique, std::span<const NotRecorded> own,
                               const Job& job) {
  for (const MostlyNotRecorded& most : kMostlyNotRecorded) {
    const bool recorded =
        std::ranges::find(technique.recorded, most.beside) != technique.recorded.end();
    if (!recorded && most.row.asked(job)) return &most.row;
  }
  const auto asked = [&job](const NotRecorded& one) { return one.asked(job); };
  const auto found = std::ranges::find_if(own, asked);
  return found == own.end() ? nullptr : &*found;
}

/// Programs were run under other releases of PyTorch on one GPU, with DDP and FSDP2.
constexpr NotRecorded kNotUnderOtherReleases[] = {
    {[](const Job& job) { return !job.training.has_value(); }, "without training", ""},
    {[](const Job& job) {
       const FrameworkRow& framework = row_of(job.training->implementation.framework);
       return framework.has_layer_specs || framework.splits.by_dtensor ||
              framework.splits.deals_by_cost || framework.is_formula;
     },
     "in another program than transformers' or one written in PyTorch", ""},
    {[](const Job& job) {
       const Parallelism& p = job.parallelism;
       return p.shards_flat() || (p.zero != ZeroStage::none && !p.fsdp) || p.pipeline > 1 ||
              p.tensor > 1 || p.context > 1;
     },
     "in this layout", ""},
    // A checkpointed LLaMA's run reserved 18 % more than under 2.14, and 15 % more than its events
    // come to here.
    {[](const Job& job) {
       return job.training->implementation.torch == TorchRelease::v2_15 &&
              !std::holds_alternative<NoRecompute>(job.training->recompute);
     },
     "(2.15) beside recompute", "set 'torch' to 2.14"},
};

/// Models were traced whole on one GPU, under a plain loop and nanoGPT's train.py.
constexpr NotRecorded kNotWhole[] = {
    {[](const Job& job) { return !job.training.has_value(); }, "under 'inference'", ""},
    {[](const Job& job) { return !std::holds_alternative<NoRecompute>(job.training->recompute); },
     "beside recompute", "set 'recompute' to none"},
    {[](const Job& job) { return job.model.adapter.has_value(); }, "beside adapters",
     "set 'compile' to blocks"},
    {[](const Job& job) {
       return job.model.quantized.has_value() || job.model.low_rank.has_value() ||
              job.model.shared_layers.has_value() || job.training->teacher != nullptr;
     },
     "beside quantised, factorised or shared weights, or a teacher", ""},
    {[](const Job& job) { return job.training->loss != TrainingLoss::cross_entropy; },
     "under another loss than cross-entropy", ""},
    {[](const Job& job) { return row_of(job.training->implementation.loop).accelerate; },
     "under the Trainer", ""},
};

}  // namespace

void refuse_unrecorded(const WrittenTechnique& technique, std::span<const NotRecorded> own,
                       const Job& job, Diagnostics& diagnostics) {
  const NotRecorded* const refused = refused_row(technique, own, job);
  if (refused == nullptr) return;
  const std::string leave = std::string("leave '") + technique.key + "' out";
  const std::string hint = refused->hint;
  diagnostics.push_back(unavailable_at(technique.written.span,
                                       std::string(technique.noun) + " " + refused->where,
                                       hint.empty() ? leave : hint + ", or " + leave));
}

bool trains_in_replicas(const Job& job) {
  const Parallelism& layout = job.parallelism;
  if (layout.ranks() == 1) return !layout.fsdp;
  return layout.ranks() == layout.data && shards_by<ReplicasOfDdp>(job);
}

bool names_other_releases(const Job& job) {
  const Implementation& implementation = job.training->implementation;
  return implementation.torch != kRecordedTorchRelease ||
         implementation.transformers != TransformersRelease::v5_18;
}

namespace {

void check_whole_compile(const Value& root, const Job& job, Diagnostics& diagnostics) {
  const ForwardSpec* forward = job.forward();
  if (forward == nullptr || forward->implementation.compile != CompileScope::whole) return;
  const Value& section = *root.find(job.training ? "training" : "inference");
  const Value& written = *section.find("implementation")->find("compile");
  constexpr Beside kRecorded[] = {Beside::other_program, Beside::other_loop, Beside::compiled};
  refuse_unrecorded({.noun = "torch.compile of a whole model",
                     .key = "compile",
                     .written = written,
                     .recorded = kRecorded},
                    kNotWhole, job, diagnostics);
}

void check_torch_release(const Value& root, const Job& job, Diagnostics& diagnostics) {
  const ForwardSpec* forward = job.forward();
  if (forward == nullptr || forward->implementation.torch == kRecordedTorchRelease) return;
  const Value* section = root.find(job.training ? "training" : "inference");
  const Value& written = *section->find("implementation")->find("torch");
  constexpr Beside kRecorded[] = {Beside::other_program, Beside::other_loop, Beside::several_gpus};
  refuse_unrecorded({.noun = "another release of PyTorch than 2.11",
                     .key = "torch",
                     .written = written,
                     .recorded = kRecorded},
                    kNotUnderOtherReleases, job, diagnostics);
  const std::optional<ComputeCapability> capability = job.hardware.gpu.compute_capability();
  const TorchRow& torch = row_of(forward->implementation.torch);
  if (torch.runs_on_blackwell || !capability || *capability < kBlackwell) return;
  diagnostics.push_back(
      error_at(written.span, "PyTorch " + std::string(torch.name) + " has no kernels for this GPU",
               "2.7 is the first that has them"));
}

}  // namespace

void check_implementation(const Value& root, const Job& job, Diagnostics& diagnostics) {
  check_torch_release(root, job, diagnostics);
  check_whole_compile(root, job, diagnostics);
}

}  // namespace memest
