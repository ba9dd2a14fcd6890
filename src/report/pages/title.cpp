#include "report/pages/title.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "memest/spec/parallel/sharing.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

constexpr std::string_view kBetween = " · ";

std::string joined_parts(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, kBetween));
}

/// Chosen for a budget it stands as a spec takes it.
std::string recompute_of(const TrainingSpec& training) {
  if (!training.recompute_budget) return "recompute " + text_of(training.recompute);
  return fmt::format("recompute: {}, the least for {}", spec_value_of(training.recompute),
                     binary_text(*training.recompute_budget));
}

/// Images have no length in tokens.
std::string batch_of(const Job& job) {
  const auto* list = std::get_if<LayerList>(&job.model.architecture);
  const bool images = job.model.family == Family::vision || job.model.family == Family::convnet ||
                      (list != nullptr && list->reads_images());
  if (images) return fmt::format("{} images a step", job.global_batch());
  return fmt::format("{} tokens × {} sequences", job.training->seq_len, job.global_batch());
}

}  // namespace

std::string_view digit_of(ZeroStage stage) {
  switch (stage) {
    case ZeroStage::none:
      return "0";
    case ZeroStage::optimizer:
      return "1";
    case ZeroStage::optimizer_gradients:
      return "2";
    case ZeroStage::optimizer_gradients_weights:
      return "3";
  }
  unreachable("a ZeRO stage beyond the enum");
}

std::string title_of(const Job& job, std::int64_t parameters) {
  std::vector<std::string> parts = {job.model.name.empty() ? job.name : job.model.name,
                                    count_text(static_cast<double>(parameters)) + " parameters"};
  if (job.training) {
    const TrainingSpec& training = *job.training;
    parts.push_back(training.recipe.name);
    parts.push_back(training.optimizer.name);
    parts.push_back(batch_of(job));
    parts.emplace_back(name_of(training.implementation.framework));
  }
  if (job.inference) {
    parts.emplace_back("inference");
    parts.push_back(job.inference->recipe.name);
    parts.push_back(
        fmt::format("{} prompts of {} tokens", job.inference->prompts(), job.inference->seq_len));
    if (const auto& generation = job.inference->generation) {
      parts.push_back(fmt::format("{} tokens generated", generation->tokens));
      if (generation->beams > 1) parts.push_back(fmt::format("{} beams", generation->beams));
      if (generation->samples) parts.emplace_back("sampled");
    }
    parts.emplace_back(name_of(job.inference->implementation.framework));
  }
  return joined_parts(parts);
}

std::string setting_of(const Job& job) {
  std::vector<std::string> parts = {
      fmt::format("{} × {}", job.hardware.count, job.hardware.gpu.slug)};
  const ZeroStage stage = sharing_of(job.parallelism).stage();
  if (stage != ZeroStage::none) {
    parts.push_back(fmt::format("ZeRO {}", digit_of(stage)));
  }
  const HostOffload& offload = job.parallelism.offload;
  if (offload.any()) {
    parts.emplace_back(!offload.parameters ? "optimizer on the host"
                       : offload.optimizer ? "optimizer and weights on the host"
                                           : "weights on the host");
  }
  if (job.training) {
    parts.push_back(fmt::format("micro-batch {} × {} accumulation steps", job.training->micro_batch,
                                job.training->gradient_accumulation));
    parts.push_back(recompute_of(*job.training));
    if (job.training->offload_activations) parts.emplace_back("saved tensors on the host");
    if (const std::int64_t layers = job.training->offloaded_layers; layers > 0) {
      parts.push_back(fmt::format("saved tensors of {} layers on the host", layers));
    }
    const auto& teacher = job.training->teacher;
    if (teacher != nullptr && teacher->use == TeacherUse::distillation) {
      parts.push_back("taught by " + teacher->model.name);
    }
  }
  if (job.model.quantized) {
    parts.push_back(fmt::format("weights in {}", row_of(job.model.quantized->format).word));
  }
  if (job.model.shared_layers) {
    parts.push_back(
        fmt::format("{} layers with weights of their own", job.model.shared_layers->distinct));
  }
  if (job.inference) {
    parts.emplace_back(job.inference->use_cache ? "key-value cache" : "no cache");
    parts.emplace_back(job.inference->logits == KeptLogits::last ? "logits of the last tokens"
                                                                 : "logits of all tokens");
  }
  return joined_parts(parts);
}

std::string margin_text(const MemoryEstimate& estimate) {
  const double device = estimate.device().as_double();
  const double below = 1 - estimate.low().as_double() / device;
  const double above = estimate.high().as_double() / device - 1;
  return fmt::format("closed form, −{} / +{}", percent_text(below), percent_text(above));
}

Paragraph not_known(const Unavailable& reason) {
  return {"Not known: " + reason.sentence, Tone::bad};
}

std::string provenance_text(const Job& job) {
  const GpuSpec& gpu = job.hardware.gpu;
  std::string text;
  if (job.hardware.assumed) {
    text += fmt::format("The spec names no GPU: {} is assumed. ", gpu.slug);
  }
  text += fmt::format("Rates of {}: {}, {}. Capacity: {}.", gpu.slug,
                      gpu.memory_bandwidth ? name_of(gpu.memory_bandwidth->provenance)
                                           : std::string_view("none known"),
                      gpu.profile ? "with a profile of its kernels" : "no measured profile",
                      name_of(gpu.capacity.provenance));
  return text;
}

}  // namespace memest
