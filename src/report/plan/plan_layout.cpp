#include "report/plan/plan_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <variant>
#include <vector>

#include "memest/report/numbers.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharing.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

/// Less of a difference in time is not worth a word.
constexpr double kNoticeable = 1.01;

void add_split(std::string& text, const char* letter, std::int64_t ranks) {
  if (ranks > 1) text += fmt::format("{}{} ", letter, ranks);
}

/// As `training.recompute` is written, for a shell.
std::string recompute_flag(const Recompute& recompute) {
  const std::string value = spec_value_of(recompute);
  return value.starts_with("{") ? "'" + value + "'" : value;
}

std::string offload_value(const HostOffload& offload) {
  std::string keys;
  const auto add = [&](const char* key, OffloadDevice device) {
    if (device == OffloadDevice::none) return;
    keys += fmt::format("{}{}: {}", keys.empty() ? "" : ", ", key, name_of(device));
  };
  add("optimizer", offload.device_of_optimizer());
  add("parameters", offload.device_of_parameters());
  if (!offload.pinned) keys += ", pin_memory: false";
  return "{" + keys + "}";
}

/// The keys of `parallelism` that are not their defaults, each with its value.
std::vector<std::string> parallelism_of(const PlanCandidate& candidate) {
  const Parallelism& layout = candidate.parallelism;
  std::vector<std::string> keys{fmt::format("data: {}", layout.data)};
  const auto ranks = [&](const char* key, std::int64_t count) {
    if (count > 1) keys.push_back(fmt::format("{}: {}", key, count));
  };
  ranks("tensor", layout.tensor);
  if (layout.sequence) keys.push_back("sequence: true");
  ranks("context", layout.context);
  ranks("pipeline", layout.pipeline);
  if (layout.schedule != Schedule::one_f_one_b) {
    keys.push_back(fmt::format("schedule: {}", name_of(layout.schedule)));
  }
  ranks("virtual_stages", layout.virtual_stages);
  if (layout.first_stage_layers > 0) {
    keys.push_back(fmt::format("first_stage_layers: {}", layout.first_stage_layers));
  }
  if (layout.last_stage_layers > 0) {
    keys.push_back(fmt::format("last_stage_layers: {}", layout.last_stage_layers));
  }
  if (layout.account_for_embedding) keys.push_back("account_for_embedding: true");
  if (layout.account_for_loss) keys.push_back("account_for_loss: true");
  if (!layout.stage_layers.empty()) {
    keys.push_back(fmt::format("pipeline_layout: [{}]", fmt::join(layout.stage_layers, ", ")));
  }
  ranks("expert", layout.expert);
  if (layout.expert_tensor) keys.push_back(fmt::format("expert_tensor: {}", *layout.expert_tensor));
  const Sharing sharing = sharing_of(layout);
  const WrittenKey written = written_key_of(sharing);
  if (sharing.stage() != ZeroStage::none) {
    keys.push_back(fmt::format("{}: {}", written.key, written.value));
  }
  if (sharing.divides_optimizer() && layout.overlap_param_gather) {
    keys.push_back("overlap_param_gather: true");
  }
  if (layout.overlap_grad_reduce) keys.push_back("overlap_grad_reduce: true");
  if (layout.offload.any())
    keys.push_back(fmt::format("offload: {}", offload_value(layout.offload)));
  return keys;
}

/// A line of text has as many columns of the section as stand beside the flag, its quotes and
/// braces.
constexpr std::size_t kSectionColumns = 72;

/// The section as a whole, in place of what the spec has there; keys that its line has no room for
/// follow one by one.
std::string parallelism_flags(const std::vector<std::string>& keys) {
  std::string section = keys.front();
  std::size_t next = 1;
  for (; next < keys.size() && section.size() + keys[next].size() + 2 <= kSectionColumns; ++next) {
    section += ", " + keys[next];
  }
  std::string flags = fmt::format("--set 'parallelism={{{}}}'", section);
  for (; next < keys.size(); ++next) {
    const std::size_t colon = keys[next].find(": ");
    flags += fmt::format(" --set 'parallelism.{}={}'", keys[next].substr(0, colon),
                         keys[next].substr(colon + 2));
  }
  return flags;
}

}  // namespace

Splits splits_of(const Job& job) {
  const ForwardSpec* forward = job.forward();
  if (forward == nullptr) return Splits::data;
  const bool splits = row_of(forward->implementation.framework).splits.any();
  return splits ? Splits::layers : Splits::data;
}

std::string layout_text(const Parallelism& layout) {
  std::string text;
  add_split(text, "t", layout.tensor);
  add_split(text, "c", layout.context);
  add_split(text, "p", layout.pipeline);
  add_split(text, "v", layout.virtual_stages);
  add_split(text, "x", layout.expert);
  return text + fmt::format("D{} Z{}", layout.data, shards_text(layout));
}

std::string shards_text(const Parallelism& layout) {
  const Sharing sharing = sharing_of(layout);
  std::string text(digit_of(sharing.stage()));
  if (sharing.in_units()) text += "f";
  if (sharing.replicas() > 1) text += fmt::format("r{}", sharing.replicas());
  if (layout.offload.any()) text += "+";
  if (layout.offload.optimizer) text += "o";
  if (layout.offload.parameters) text += "w";
  return text;
}

std::string settings_text(const PlanCandidate& candidate, Splits splits) {
  const std::string layout = splits == Splits::layers
                                 ? layout_text(candidate.parallelism)
                                 : fmt::format("ZeRO {}", shards_text(candidate.parallelism));
  return fmt::format("micro-batch {}, recompute {}, {}", candidate.micro_batch,
                     text_of(candidate.recompute), layout);
}

std::string flags_of(const PlanCandidate& candidate, Splits splits) {
  const std::string settings =
      fmt::format("--set training.micro_batch={} --set training.recompute={}",
                  candidate.micro_batch, recompute_flag(candidate.recompute));
  if (splits == Splits::data) {
    const Parallelism& layout = candidate.parallelism;
    const Sharing sharing = sharing_of(layout);
    const WrittenKey written = written_key_of(sharing);
    const char* quote = sharing.in_units() ? "'" : "";
    const std::string shards =
        fmt::format("{0}parallelism.{1}={2}{0}", quote, written.key, written.value);
    const std::string offload =
        layout.offload.any()
            ? fmt::format(" --set 'parallelism.offload={}'", offload_value(layout.offload))
            : "";
    return fmt::format("--gpu {} --gpus {} {} --set {}{}", candidate.gpu->slug, candidate.gpus,
                       settings, shards, offload);
  }
  return fmt::format("--gpu {} --set hardware.count={} {} {}", candidate.gpu->slug, candidate.gpus,
                     settings, parallelism_flags(parallelism_of(candidate)));
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
