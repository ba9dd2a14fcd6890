#include "read_implementation.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "scalar.hpp"

namespace memest {
namespace {

/// What each framework does where the spec does not say otherwise.
constexpr std::array<Implementation, 6> kImplementations = {
    {{Framework::transformers, AttentionKernel::sdpa, LossKernel::upcast, NormKernel::composite},
     {Framework::torchtitan, AttentionKernel::sdpa, LossKernel::upcast, NormKernel::fused,
      LoopKind::torchtitan},
     {Framework::nanogpt, AttentionKernel::sdpa, LossKernel::plain, NormKernel::fused},
     {Framework::textbook, AttentionKernel::textbook, LossKernel::upcast, NormKernel::fused},
     {Framework::megatron, AttentionKernel::te, LossKernel::vocab_parallel, NormKernel::fused},
     {Framework::plain, AttentionKernel::sdpa, LossKernel::plain, NormKernel::fused}}};

std::optional<Implementation> implementation_named(std::string_view name) {
  for (const Implementation& implementation : kImplementations) {
    if (name_of(implementation.framework) == name) return implementation;
  }
  return std::nullopt;
}

template <class Kernel, std::size_t size>
void override_with(const Value* word, const std::array<Kernel, size>& kernels, Kernel& kernel) {
  if (word == nullptr) return;
  for (const Kernel candidate : kernels) {
    if (name_of(candidate) == word->text) kernel = candidate;
  }
}

/// Megatron's layers, which come with an attention kernel of their own.
void read_layers(const Value* layers, const Value* release, Implementation& implementation) {
  static constexpr std::array kLayers = {LayerSpec::local, LayerSpec::te};
  static constexpr std::array kReleases = {TeRelease::te_2_2, TeRelease::te_2_9,
                                           TeRelease::te_2_11};
  if (implementation.framework != Framework::megatron) return;
  implementation.layers = LayerSpec::te;
  override_with(layers, kLayers, implementation.layers);
  override_with(release, kReleases, implementation.transformer_engine);
  if (implementation.layers == LayerSpec::local)
    implementation.attention = AttentionKernel::unfused;
}

/// A norm kernel other than the framework's own has no lowering yet.
void check_norm(const Value* norm, const Implementation& own, Diagnostics& diagnostics) {
  if (norm == nullptr || norm->text == name_of(own.norm)) return;
  const std::string framework(name_of(own.framework));
  diagnostics.push_back(
      unavailable_at(norm->span, "the norm " + quoted(norm->text) + " in " + quoted(framework),
                     "it comes with a later version; leave 'norm' out or set it to " +
                         std::string(name_of(own.norm))));
}

void check_model(const Value* name, Framework framework, const ModelSpec* model,
                 Diagnostics& diagnostics) {
  if (name == nullptr || model == nullptr) return;
  const bool is_list = model->family == Family::layer_list;
  if (is_list == (framework == Framework::plain)) return;
  diagnostics.push_back(error_at(
      name->span,
      is_list ? "a list of layers has no implementation " + quoted(name->text)
              : "'plain' is the implementation of a list of layers, not of a " +
                    std::string(name_of(model->family)),
      is_list ? "leave it out or set it to plain" : "use transformers, nanogpt or textbook"));
}

/// Whose models a loop trains, and what it is called; a plain one trains any.
struct OwnLoop {
  LoopKind loop;
  Framework framework;
  const char* name;
};
constexpr std::array kOwnLoops = {
    OwnLoop{LoopKind::nanogpt, Framework::nanogpt, "train.py"},
    OwnLoop{LoopKind::trainer, Framework::transformers, "the Trainer"}};

void read_loop(const Value* loop, Implementation& implementation, Diagnostics& diagnostics) {
  static constexpr std::array kLoops = {LoopKind::plain, LoopKind::nanogpt, LoopKind::trainer};
  override_with(loop, kLoops, implementation.loop);
  for (const OwnLoop& own : kOwnLoops) {
    if (implementation.loop != own.loop || implementation.framework == own.framework) continue;
    diagnostics.push_back(
        error_at(loop->span,
                 std::string(own.name) + " does not train a model of the implementation " +
                     quoted(name_of(implementation.framework)),
                 "leave 'loop' out, or set 'name' to " + std::string(name_of(own.framework))));
  }
}

void read_compile(const Value* compile, Implementation& implementation, Diagnostics& diagnostics) {
  static constexpr std::array kScopes = {CompileScope::off, CompileScope::blocks};
  static constexpr std::array kCompiled = {Framework::transformers, Framework::torchtitan,
                                           Framework::nanogpt};
  override_with(compile, kScopes, implementation.compile);
  const bool compiles = implementation.compile != CompileScope::off;
  if (!compiles ||
      std::find(kCompiled.begin(), kCompiled.end(), implementation.framework) != kCompiled.end()) {
    return;
  }
  diagnostics.push_back(
      unavailable_at(compile->span, "torch.compile in " + quoted(name_of(implementation.framework)),
                     "it comes with a later version; leave 'compile' out or set it to off"));
}

}  // namespace

Implementation read_implementation(const Value* written, const ModelSpec* model,
                                   Diagnostics& diagnostics) {
  const bool is_list = model != nullptr && model->family == Family::layer_list;
  const std::string_view fallback = name_of(is_list ? Framework::plain : Framework::transformers);
  const bool is_map = written != nullptr && written->kind == ValueKind::mapping;
  const Value* name = is_map ? written->find("name") : written;
  const std::optional<Implementation> own =
      implementation_named(as_text(name).value_or(std::string(fallback)));
  if (!own) return {};  // refused by check_table
  check_model(name, own->framework, model, diagnostics);
  Implementation implementation = *own;
  const auto key = [&](std::string_view of) { return is_map ? written->find(of) : nullptr; };
  read_layers(key("layers"), key("transformer_engine"), implementation);
  if (!is_map) return implementation;
  static constexpr std::array kAttentions = {
      AttentionKernel::sdpa,      AttentionKernel::sdpa_flash, AttentionKernel::sdpa_efficient,
      AttentionKernel::sdpa_math, AttentionKernel::sdpa_cudnn, AttentionKernel::eager,
      AttentionKernel::unfused,   AttentionKernel::flash_2,    AttentionKernel::te};
  static constexpr std::array kLosses = {LossKernel::upcast, LossKernel::plain,
                                         LossKernel::vocab_parallel, LossKernel::te};
  override_with(written->find("attention"), kAttentions, implementation.attention);
  override_with(written->find("loss"), kLosses, implementation.loss);
  implementation.loss_parallel = as_flag(written->find("loss_parallel")).value_or(false);
  check_norm(written->find("norm"), *own, diagnostics);
  read_loop(written->find("loop"), implementation, diagnostics);
  read_compile(written->find("compile"), implementation, diagnostics);
  return implementation;
}

}  // namespace memest
