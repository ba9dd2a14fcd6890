#include "reader/job/read_implementation.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "memest/spec/framework.hpp"
#include "reader/keys/implementation.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

template <class Kernel>
void override_with(const Value* word, std::span<const Kernel> kernels, Kernel& kernel) {
  if (word == nullptr) return;
  for (const Kernel candidate : kernels) {
    if (name_of(candidate) == word->text) kernel = candidate;
  }
}

/// Megatron's layers, which come with an attention kernel of their own.
void read_layers(const Value* layers, const Value* release, Implementation& implementation) {
  if (!row_of(implementation.framework).has_layer_specs) return;
  implementation.layers = LayerSpec::te;
  override_with<LayerSpec>(layers, kLayerSpecs, implementation.layers);
  override_with<TeRelease>(release, kTeReleases, implementation.transformer_engine);
  if (implementation.layers != LayerSpec::te)
    // get_gpt_layer_local_spec has core_attention=DotProductAttention: baddbmm, a softmax and bmm,
    // as ParallelAttention had them before.
    implementation.attention = AttentionKernel::unfused;
}

/// A norm kernel other than the framework's own has no lowering yet.
void check_norm(const Value* norm, const Implementation& own, Diagnostics& diagnostics) {
  if (norm == nullptr || norm->text == name_of(own.norm)) return;
  const std::string framework(name_of(own.framework));
  diagnostics.push_back(
      unavailable_at(norm->span, "the norm " + quote(norm->text) + " in " + quote(framework),
                     "it comes with a later version; leave 'norm' out or set it to " +
                         std::string(name_of(own.norm))));
}

/// torchtitan's loss in parts of the sequences was there in March 2025; a later one's is another.
void check_loss(const Value* loss, const Implementation& implementation, Diagnostics& diagnostics) {
  const LossKernel own = row_of(implementation.framework).own.loss;
  if (loss == nullptr || implementation.loss != LossKernel::chunked || implementation.loss == own) {
    return;
  }
  const bool titan = row_of(implementation.framework).splits.by_dtensor;
  if (titan && row_of(implementation.torchtitan).chunks_loss) return;
  diagnostics.push_back(unavailable_at(
      loss->span, titan ? "the chunked loss of another release" : "the chunked loss",
      titan ? "write 'torchtitan: 2025-03' beside it" : "it comes with a later version"));
}

void check_model(const Value* name, Framework framework, const ModelSpec* model,
                 Diagnostics& diagnostics) {
  if (name == nullptr || model == nullptr) return;
  const bool is_list = model->family == Family::layer_list;
  if (is_list == row_of(framework).trains_layer_lists) return;
  diagnostics.push_back(error_at(
      name->span,
      is_list ? "a list of layers has no implementation " + quote(name->text)
              : quote(name->text) + " is the implementation of a list of layers, not of a " +
                    std::string(name_of(model->family)),
      is_list ? "leave it out or set it to " + std::string(name_of(default_framework(true)))
              : "use transformers, nanogpt or textbook"));
}

void read_loop(const Value* loop, Implementation& implementation, Diagnostics& diagnostics) {
  override_with(loop, written_loops(), implementation.loop);
  const LoopRow& row = row_of(implementation.loop);
  if (!row.trains || implementation.framework == *row.trains) return;
  diagnostics.push_back(
      error_at(loop->span,
               std::string(row.title) + " does not train a model of the implementation " +
                   quote(name_of(implementation.framework)),
               "leave 'loop' out, or set 'name' to " + std::string(name_of(*row.trains))));
}

void read_compile(const Value* compile, Implementation& implementation, Diagnostics& diagnostics) {
  override_with<CompileScope>(compile, kCompileScopes, implementation.compile);
  const FrameworkRow& row = row_of(implementation.framework);
  const std::string program = quote(name_of(implementation.framework));
  if (implementation.compile == CompileScope::whole && row.compiles_blocks && !row.compiles_whole) {
    diagnostics.push_back(unavailable_at(compile->span,
                                         "torch.compile of a whole model in " + program,
                                         "set 'compile' to blocks or off"));
  }
  if (implementation.compile == CompileScope::off || row.compiles_blocks) return;
  diagnostics.push_back(
      unavailable_at(compile->span, "torch.compile in " + program,
                     "it comes with a later version; leave 'compile' out or set it to off"));
}

void read_cuda_graph(const Value* written, Implementation& implementation) {
  if (written == nullptr) return;
  CudaGraphs& graphs = implementation.cuda_graph;
  graphs.full_iteration = as_text(written) == "full_iteration";
  for (const Value& item : written->items) {
    for (const GraphScope scope : kGraphScopes) {
      if (item.text == name_of(scope)) graphs.scopes[static_cast<std::size_t>(scope)] = true;
    }
  }
}

/// The key of the model's own gated feed-forward; none where it has another, or several.
std::optional<std::string_view> gate_of(const ModelSpec* model) {
  const auto* decoder = model == nullptr ? nullptr : std::get_if<DecoderSpec>(&model->architecture);
  if (decoder == nullptr || decoder->kinds.empty()) return std::nullopt;
  const auto* dense = std::get_if<DenseFeedForward>(&decoder->kinds.front().feed_forward);
  if (dense == nullptr || !dense->gated) return std::nullopt;
  // apply_liger_kernel_to_llama takes swiglu, apply_liger_kernel_to_gemma geglu, none takes both.
  return dense->activation == ActivationFunction::silu ? "swiglu" : "geglu";
}

/// A key left out of the map gets apply_liger_kernel_to_MODEL_TYPE(...)'s default.
LigerKernels kernels_of(const Value& written, const ModelSpec* model, Diagnostics& diagnostics) {
  const auto on = [&](std::string_view key) { return as_flag(written.find(key)).value_or(true); };
  const std::string_view own = gate_of(model).value_or("swiglu");
  const std::string_view other = own == "swiglu" ? "geglu" : "swiglu";
  if (const Value* foreign = written.find(other); foreign != nullptr && gate_of(model)) {
    diagnostics.push_back(error_at(foreign->span,
                                   "the model's feed-forward has no kernel " + quote(other),
                                   "set " + quote(own) + " instead"));
  }
  if (const Value* loss = written.find("cross_entropy"); as_flag(loss).value_or(false)) {
    diagnostics.push_back(
        unavailable_at(loss->span, "Liger's loss of whole logits",
                       "it comes with a later version; fused_linear_cross_entropy is available"));
  }
  return {on("rope"), on("rms_norm"), on(own), on("fused_linear_cross_entropy")};
}

/// Liger replaces classes and functions of transformers' modeling files.
void read_liger(const Value* liger, const ModelSpec* model, Implementation& implementation,
                Diagnostics& diagnostics) {
  if (liger == nullptr || as_flag(liger) == false) return;
  if (!row_of(implementation.framework).takes_liger) {
    diagnostics.push_back(
        error_at(liger->span,
                 "Liger's kernels stand in models of transformers, not of the implementation " +
                     quote(name_of(implementation.framework)),
                 "leave 'liger' out, or set 'name' to transformers"));
    return;
  }
  implementation.liger = kernels_of(*liger, model, diagnostics);
}

/// Keys of one framework's own mean nothing to another.
void read_own_keys(const Value& written, Implementation& implementation, Diagnostics& diagnostics) {
  for (const OwnKey& own : own_keys()) {
    const Value* value = written.find(own.name);
    if (value == nullptr) continue;
    if (own.flag != nullptr) implementation.*own.flag = as_flag(value).value_or(false);
    const bool of_framework = own.belongs_to(row_of(implementation.framework));
    const bool of_layers = !own.layers || *own.layers == implementation.layers;
    if (of_framework && of_layers) continue;
    const std::string other = of_framework
                                  ? "layers " + quote(name_of(implementation.layers))
                                  : "implementation " + quote(name_of(implementation.framework));
    diagnostics.push_back(error_at(
        value->span, quote(own.name) + " is of " + std::string(own.owner) + ", not of the " + other,
        "leave " + quote(own.name) + " out"));
  }
}

}  // namespace

Implementation read_implementation(const Value* written, const ModelSpec* model,
                                   Diagnostics& diagnostics) {
  const bool is_list = model != nullptr && model->family == Family::layer_list;
  const std::string fallback(name_of(default_framework(is_list)));
  const bool is_map = written != nullptr && written->kind == ValueKind::mapping;
  const Value* name = is_map ? written->find("name") : written;
  const std::optional<Framework> framework = framework_named(as_text(name).value_or(fallback));
  if (!framework) return {};  // refused by check_table
  check_model(name, *framework, model, diagnostics);
  const Implementation& own = row_of(*framework).own;
  Implementation implementation = own;
  const auto key = [&](std::string_view of) { return is_map ? written->find(of) : nullptr; };
  read_layers(key("layers"), key("transformer_engine"), implementation);
  if (!is_map) return implementation;
  override_with<AttentionKernel>(written->find("attention"), kAttentionKernels,
                                 implementation.attention);
  override_with<LossKernel>(written->find("loss"), kLossKernels, implementation.loss);
  override_with<TorchtitanRelease>(written->find("torchtitan"), kTorchtitanReleases,
                                   implementation.torchtitan);
  check_loss(written->find("loss"), implementation, diagnostics);
  override_with<TransformersRelease>(written->find("transformers"), kTransformersReleases,
                                     implementation.transformers);
  override_with<TorchRelease>(written->find("torch"), kTorchReleases, implementation.torch);
  read_own_keys(*written, implementation, diagnostics);
  check_norm(written->find("norm"), own, diagnostics);
  read_loop(written->find("loop"), implementation, diagnostics);
  read_liger(written->find("liger"), model, implementation, diagnostics);
  read_compile(written->find("compile"), implementation, diagnostics);
  read_cuda_graph(written->find("cuda_graph"), implementation);
  override_with<TokenDispatcher>(written->find("token_dispatcher"), kTokenDispatchers,
                                 implementation.token_dispatcher);
  return implementation;
}

}  // namespace memest
