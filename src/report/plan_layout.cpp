#include "plan_layout.hpp"

#include <fmt/format.h>

#include "memest/report/numbers.hpp"
#include "title.hpp"

namespace memest {
namespace {

/// Less of a difference in time is not worth a word.
constexpr double kNoticeable = 1.01;

void add(std::string& text, const char* letter, std::int64_t ranks) {
  if (ranks > 1) text += fmt::format("{}{} ", letter, ranks);
}

std::string recompute_flag(const Recompute& recompute) {
  if (const auto* every = std::get_if<EveryRecompute>(&recompute)) {
    return fmt::format("'{{every: {}}}'", every->every);
  }
  return text_of(recompute);
}

/// The keys of `parallelism` that are not their defaults.
std::string parallelism_of(const PlanCandidate& candidate) {
  const Parallelism& layout = candidate.parallelism;
  std::string keys = fmt::format("data: {}", layout.data);
  const auto ranks = [&](const char* key, std::int64_t count) {
    if (count > 1) keys += fmt::format(", {}: {}", key, count);
  };
  ranks("tensor", layout.tensor);
  if (layout.sequence) keys += ", sequence: true";
  ranks("context", layout.context);
  ranks("pipeline", layout.pipeline);
  if (layout.schedule != Schedule::one_f_one_b) {
    keys += fmt::format(", schedule: {}", name_of(layout.schedule));
  }
  ranks("virtual_stages", layout.virtual_stages);
  ranks("expert", layout.expert);
  if (layout.expert_tensor) keys += fmt::format(", expert_tensor: {}", *layout.expert_tensor);
  if (layout.distributed_optimizer) {
    keys += ", distributed_optimizer: true";
  } else if (layout.zero != ZeroStage::none && !layout.fsdp) {
    keys += fmt::format(", zero: {}", stage_of(layout.zero));
  }
  return keys;
}

}  // namespace

Splits splits_of(const Job& job) {
  const ForwardSpec* forward = job.forward();
  if (forward == nullptr) return Splits::data;
  const Framework framework = forward->implementation.framework;
  return framework == Framework::megatron || framework == Framework::torchtitan ? Splits::layers
                                                                                : Splits::data;
}

std::string layout_text(const Parallelism& layout) {
  std::string text;
  add(text, "t", layout.tensor);
  add(text, "c", layout.context);
  add(text, "p", layout.pipeline);
  add(text, "v", layout.virtual_stages);
  add(text, "x", layout.expert);
  return text + fmt::format("D{} Z{}", layout.data, stage_of(layout.zero));
}

std::string flags_of(const PlanCandidate& candidate, Splits splits) {
  const std::string settings =
      fmt::format("--set training.micro_batch={} --set training.recompute={}",
                  candidate.micro_batch, recompute_flag(candidate.recompute));
  if (splits == Splits::data) {
    return fmt::format("--gpu {} --gpus {} {} --set parallelism.zero={}", candidate.gpu->slug,
                       candidate.gpus, settings, stage_of(candidate.parallelism.zero));
  }
  return fmt::format("--gpu {} --set hardware.count={} {} --set 'parallelism={{{}}}'",
                     candidate.gpu->slug, candidate.gpus, settings, parallelism_of(candidate));
}

std::string lever_text(const std::vector<Lever>& levers) {
  if (levers.empty()) return {};
  const Lever& lever = levers.front();
  std::string text = fmt::format("{} saves {} GiB", lever.name, gib_text(lever.saved));
  if (lever.fits) text += " and fits";
  if (lever.host) text += fmt::format(", for {} GiB of its host a GPU", gib_text(*lever.host));
  if (lever.slower && *lever.slower > kNoticeable) {
    text += fmt::format(", at {} × the time", significant_text(*lever.slower));
  }
  return text;
}

}  // namespace memest
