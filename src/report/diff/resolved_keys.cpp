#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "memest/report/numbers.hpp"
#include "memest/spec/parallel/sharing.hpp"
#include "memest/units/text.hpp"
#include "report/diff/changed_keys.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

std::string shown_value(std::int64_t count) { return std::to_string(count); }
std::string flag_text(bool flag) { return flag ? "true" : "false"; }
std::string shown_value(std::string_view name) { return std::string(name); }

/// A key, and its value in a job; empty where the job has none.
struct ResolvedKey {
  std::string_view key;
  std::string (*value)(const Job& job);
};

using Of = std::string (*)(const TrainingSpec&);
using OfForward = std::string (*)(const ForwardSpec&);
template <Of kOf>
std::string of_training(const Job& job) {
  return job.training ? kOf(*job.training) : std::string();
}
template <OfForward kOf>
std::string of_either(const Job& job) {
  const ForwardSpec* forward = job.forward();
  return job.training && forward != nullptr ? kOf(*forward) : std::string();
}
template <OfForward kOf>
std::string of_inference(const Job& job) {
  return job.inference ? kOf(*job.inference) : std::string();
}

std::string attention(const ForwardSpec& f) {
  return shown_value(name_of(f.implementation.attention));
}
std::string framework(const ForwardSpec& f) {
  return shown_value(name_of(f.implementation.framework));
}
std::string loss_kernel(const ForwardSpec& f) {
  return shown_value(name_of(f.implementation.loss));
}
std::string norm_kernel(const ForwardSpec& f) {
  return shown_value(name_of(f.implementation.norm));
}
std::string loop(const ForwardSpec& f) { return shown_value(name_of(f.implementation.loop)); }
std::string layers(const ForwardSpec& f) { return shown_value(name_of(f.implementation.layers)); }
std::string compile(const ForwardSpec& f) { return shown_value(name_of(f.implementation.compile)); }
std::string precision(const ForwardSpec& f) { return f.recipe.name; }
std::string use_cache(const ForwardSpec& f) { return flag_text(f.use_cache); }

std::string micro_batch(const TrainingSpec& t) { return shown_value(t.micro_batch); }
std::string accumulation(const TrainingSpec& t) { return shown_value(t.gradient_accumulation); }
std::string optimizer(const TrainingSpec& t) { return t.optimizer.name; }
std::string optimizer_implementation(const TrainingSpec& t) {
  return shown_value(name_of(t.optimizer_implementation));
}
std::string exp_avg(const TrainingSpec& t) {
  return std::string(own_type_of("exp_avg", t.optimizer));
}
std::string exp_avg_sq(const TrainingSpec& t) {
  return std::string(own_type_of("exp_avg_sq", t.optimizer));
}
std::string main_params(const TrainingSpec& t) {
  return std::string(own_type_of("master_param", t.optimizer));
}
std::string recompute(const TrainingSpec& t) { return spec_value_of(t.recompute); }
std::string clipping(const TrainingSpec& t) { return flag_text(t.clip_gradients); }
std::string zero_grad(const TrainingSpec& t) {
  return t.zero_grad == ZeroGrad::zeros ? "zeros" : "set-to-none";
}
std::string padding_free(const TrainingSpec& t) {
  if (!t.padding_free) return {};
  return shown_value(t.padding_free->documents) + " documents a sequence";
}

std::string completion_len(const TrainingSpec& t) {
  return t.completion_len > 0 ? shown_value(t.completion_len) : std::string();
}
std::string hold_outputs(const TrainingSpec& t) { return flag_text(t.hold_outputs); }
std::string in_backward(const TrainingSpec& t) { return flag_text(t.steps_in_backward); }
std::string ema(const TrainingSpec& t) { return flag_text(t.averages_weights); }
std::string steps(const TrainingSpec& t) { return shown_value(t.steps); }

std::string global_batch(const Job& job) {
  return job.training ? shown_value(job.global_batch()) : std::string();
}
std::string price(const Job& job) {
  const auto& value = job.hardware.price;
  return value ? significant_text(value->value()) + " USD/h" : std::string();
}
std::string memory(const Job& job) {
  return job.hardware.memory ? binary_text(*job.hardware.memory) : std::string();
}
std::string host_memory(const Job& job) {
  return job.hardware.host_memory ? binary_text(*job.hardware.host_memory) : std::string();
}
std::string stage(const Job& job) {
  return shown_value(digit_of(sharing_of(job.parallelism).stage()));
}

// In the order of a spec's sections. The model's own keys have no row: what they come to is in the
// numbers of its parameters.
constexpr std::array kRows = {
    ResolvedKey{"training.micro_batch", of_training<micro_batch>},
    ResolvedKey{"training.gradient_accumulation", of_training<accumulation>},
    ResolvedKey{"training.global_batch", global_batch},
    ResolvedKey{"training.precision", of_either<precision>},
    ResolvedKey{"training.optimizer.name", of_training<optimizer>},
    ResolvedKey{"training.optimizer.implementation", of_training<optimizer_implementation>},
    ResolvedKey{"training.optimizer.exp_avg", of_training<exp_avg>},
    ResolvedKey{"training.optimizer.exp_avg_sq", of_training<exp_avg_sq>},
    ResolvedKey{"training.optimizer.main_params", of_training<main_params>},
    ResolvedKey{"training.optimizer.in_backward", of_training<in_backward>},
    ResolvedKey{"training.recompute", of_training<recompute>},
    ResolvedKey{"training.clip_gradients", of_training<clipping>},
    ResolvedKey{"training.zero_grad", of_training<zero_grad>},
    ResolvedKey{"training.completion_len", of_training<completion_len>},
    ResolvedKey{"training.padding_free", of_training<padding_free>},
    ResolvedKey{"training.hold_outputs", of_training<hold_outputs>},
    ResolvedKey{"training.ema", of_training<ema>},
    ResolvedKey{"training.use_cache", of_either<use_cache>},
    ResolvedKey{"training.steps", of_training<steps>},
    ResolvedKey{"training.implementation.name", of_either<framework>},
    ResolvedKey{"training.implementation.attention", of_either<attention>},
    ResolvedKey{"training.implementation.loss", of_either<loss_kernel>},
    ResolvedKey{"training.implementation.norm", of_either<norm_kernel>},
    ResolvedKey{"training.implementation.loop", of_either<loop>},
    ResolvedKey{"training.implementation.layers", of_either<layers>},
    ResolvedKey{"training.implementation.compile", of_either<compile>},
    ResolvedKey{"inference.precision", of_inference<precision>},
    ResolvedKey{"inference.use_cache", of_inference<use_cache>},
    ResolvedKey{"inference.implementation.name", of_inference<framework>},
    ResolvedKey{"inference.implementation.attention", of_inference<attention>},
    ResolvedKey{"parallelism.data", [](const Job& j) { return shown_value(j.parallelism.data); }},
    ResolvedKey{"parallelism.tensor",
                [](const Job& j) { return shown_value(j.parallelism.tensor); }},
    ResolvedKey{"parallelism.pipeline",
                [](const Job& j) { return shown_value(j.parallelism.pipeline); }},
    ResolvedKey{"parallelism.context",
                [](const Job& j) { return shown_value(j.parallelism.context); }},
    ResolvedKey{"parallelism.expert",
                [](const Job& j) { return shown_value(j.parallelism.expert); }},
    ResolvedKey{"parallelism.sequence",
                [](const Job& j) { return flag_text(j.parallelism.sequence); }},
    ResolvedKey{"parallelism.schedule",
                [](const Job& j) { return shown_value(name_of(j.parallelism.schedule)); }},
    ResolvedKey{"parallelism.virtual_stages",
                [](const Job& j) { return shown_value(j.parallelism.virtual_stages); }},
    ResolvedKey{"parallelism.account_for_embedding",
                [](const Job& j) { return flag_text(j.parallelism.account_for_embedding); }},
    ResolvedKey{"parallelism.account_for_loss",
                [](const Job& j) { return flag_text(j.parallelism.account_for_loss); }},
    ResolvedKey{"parallelism.zero", stage},
    ResolvedKey{"hardware.gpu", [](const Job& j) { return j.hardware.gpu.slug; }},
    ResolvedKey{"hardware.count", [](const Job& j) { return shown_value(j.hardware.count); }},
    ResolvedKey{"hardware.gpus_per_node",
                [](const Job& j) { return shown_value(j.hardware.gpus_per_node); }},
    ResolvedKey{"hardware.link_domain",
                [](const Job& j) { return shown_value(j.hardware.linked_gpus()); }},
    ResolvedKey{"hardware.price", price},
    ResolvedKey{"hardware.memory", memory},
    ResolvedKey{"hardware.host_memory", host_memory},
};

}  // namespace

std::vector<PlacedKey> resolved_keys(const Job& job) {
  std::vector<PlacedKey> keys;
  for (const ResolvedKey& row : kRows) {
    std::string value = row.value(job);
    if (!value.empty()) keys.push_back({std::string(row.key), std::move(value), "default"});
  }
  return keys;
}

}  // namespace memest
