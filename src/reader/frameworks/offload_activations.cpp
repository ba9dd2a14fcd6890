#include "reader/frameworks/offload_activations.hpp"

#include <algorithm>
#include <string_view>
#include <variant>

#include "memest/spec/framework.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// Something that no run with saved tensors on the host was recorded with, as a noun.
struct Unrecorded {
  bool (*asked)(const Job&);
  const char* noun;
  const char* hint;
};

const DecoderSpec* decoder_of(const Job& job) {
  return std::get_if<DecoderSpec>(&job.model.architecture);
}

/// The locals of such a list's modules hold no more than autograd would.
bool is_unrecorded_list(const Job& job) {
  const auto* list = std::get_if<LayerList>(&job.model.architecture);
  if (list == nullptr) return false;
  if (list->reads_images()) return true;
  const auto is_recorded = [](const PlainLayer& layer) {
    return std::holds_alternative<LinearLayer>(layer) ||
           std::holds_alternative<ActivationLayer>(layer);
  };
  return !std::ranges::all_of(list->blocks, [&](const LayerBlock& block) {
    return std::ranges::all_of(block.block, is_recorded);
  });
}

/// BLOOM, Falcon and MPT hand the attention weights on, which live until the next layer has
/// answered.
bool hands_weights_on(const Job& job) {
  const std::string_view type = job.model.model_type;
  return job.training->implementation.attention == AttentionKernel::eager &&
         (type == "bloom" || type == "falcon" || type == "mpt");
}

/// Norms of transposed heads save what lies so, and OPT's keys give their gradient back by rows: in
/// page-locked memory both come back lying otherwise.
bool comes_back_otherwise(const Job& job) {
  const DecoderSpec* decoder = decoder_of(job);
  if (decoder == nullptr || !job.training->offload_activations->pin_memory) return false;
  const auto* softmax = std::get_if<SoftmaxAttention>(&decoder->attention);
  const bool by_head = softmax != nullptr && (softmax->qk_norm == QkNorm::per_head ||
                                              softmax->qk_norm == QkNorm::per_head_own);
  return job.model.model_type == "opt" || (by_head && job.model.model_type != "qwen3");
}

constexpr Unrecorded kUnrecorded[] = {
    {[](const Job& job) {
       return !row_of(job.training->implementation.framework).saves_on_cpu ||
              job.training->implementation.loop != LoopKind::plain;
     },
     "save_on_cpu in another loop than a plain one of PyTorch",
     "use 'implementation: transformers', or leave 'offload_activations' out"},
    {[](const Job& job) { return job.parallelism.ranks() > 1 || job.parallelism.fsdp.has_value(); },
     "save_on_cpu on several GPUs", "set 'hardware.count' to 1 and leave 'parallelism' out"},
    {[](const Job& job) { return job.parallelism.offload.any(); },
     "save_on_cpu beside an offloaded optimizer", "leave one of the two out"},
    {[](const Job& job) { return job.training->replaces_modules(); },
     "save_on_cpu beside Liger's kernels or float8 linears", "leave one of the two out"},
    {[](const Job& job) { return job.training->implementation.compile != CompileScope::off; },
     "save_on_cpu around compiled layers", "leave 'compile' or 'offload_activations' out"},
    {[](const Job& job) {
       const Recompute& recompute = job.training->recompute;
       const auto* full = std::get_if<FullRecompute>(&recompute);
       const bool every =
           full != nullptr && full->method == RecomputeMethod::uniform && full->layers == 1;
       return !every && !std::holds_alternative<NoRecompute>(recompute);
     },
     "save_on_cpu beside another recompute than that of every layer",
     "set 'recompute' to none or full"},
    {[](const Job& job) { return job.training->use_cache; }, "save_on_cpu beside a key-value cache",
     "leave 'use_cache' out"},
    {is_unrecorded_list, "save_on_cpu in a list with other layers than linear ones and activations",
     "leave 'offload_activations' out"},
    {[](const Job& job) {
       const DecoderSpec* decoder = decoder_of(job);
       return decoder != nullptr && decoder->experts() != nullptr;
     },
     "save_on_cpu with a mixture of experts", "leave 'offload_activations' out"},
    {[](const Job& job) {
       const DecoderSpec* decoder = decoder_of(job);
       return decoder != nullptr && std::holds_alternative<LatentAttention>(decoder->attention);
     },
     "save_on_cpu with latent attention", "leave 'offload_activations' out"},
    {[](const Job& job) {
       const DecoderSpec* decoder = decoder_of(job);
       const auto* softmax =
           decoder == nullptr ? nullptr : std::get_if<SoftmaxAttention>(&decoder->attention);
       return softmax != nullptr && softmax->head_dim % 8 != 0;
     },
     "save_on_cpu with heads that are no multiple of 8 channels",
     "leave 'offload_activations' out"},
    {hands_weights_on, "save_on_cpu with eager attention of BLOOM, Falcon and MPT",
     "leave 'offload_activations' out, or choose another attention"},
    {comes_back_otherwise,
     "save_on_cpu into page-locked memory of OPT, and of models that normalize each head but Qwen3",
     "leave 'pin_memory' out"},
    {[](const Job& job) { return job.model.adapter.has_value(); }, "save_on_cpu beside adapters",
     "leave one of the two out"},
};

/// Megatron raises these of cpu_offloading (transformer_config.py, __post_init__).
constexpr Unrecorded kRaised[] = {
    {[](const Job& job) {
       const DecoderSpec* decoder = decoder_of(job);
       return decoder != nullptr && job.training->offloaded_layers >= decoder->layers();
     },
     "Megatron offloads fewer layers than the model has: the last one stays on the device",
     "choose fewer 'layers'"},
    {[](const Job& job) { return job.parallelism.pipeline > 1; },
     "Megatron has no support for pipeline parallelism with CPU offloading",
     "leave 'pipeline' or 'offload_activations' out"},
    {[](const Job& job) { return !std::holds_alternative<NoRecompute>(job.training->recompute); },
     "Megatron's CPU offloading does not work when activation recomputation is enabled",
     "leave 'recompute' or 'offload_activations' out"},
};

/// Nobody has recorded or read these of it.
constexpr Unrecorded kUnread[] = {
    {[](const Job& job) { return job.training->implementation.framework != Framework::megatron; },
     "cpu_offloading in another program than Megatron",
     "use 'implementation: megatron', or 'method: save_on_cpu'"},
    {[](const Job& job) {
       const Implementation& implementation = job.training->implementation;
       return implementation.layers == LayerSpec::legacy || implementation.deepspeed;
     },
     "cpu_offloading of Megatron's legacy layers", "leave 'offload_activations' out"},
    // Before 2.11 the handler is another (AsyncDoubleBufferGroupOffloadHandler), which spreads the
    // copies over the forward; NVTE_CPU_OFFLOAD_V1 asks for it since.
    {[](const Job& job) {
       return job.training->implementation.transformer_engine < TeRelease::te_2_11;
     },
     "the cpu_offloading of Transformer Engine before 2.11",
     "leave 'transformer_engine' or 'offload_activations' out"},
    {[](const Job& job) {
       const DecoderSpec* decoder = decoder_of(job);
       return decoder == nullptr || decoder->experts() != nullptr;
     },
     "cpu_offloading of a mixture of experts", "leave 'offload_activations' out"},
    {[](const Job& job) {
       const DecoderSpec* decoder = decoder_of(job);
       const auto* softmax =
           decoder == nullptr ? nullptr : std::get_if<SoftmaxAttention>(&decoder->attention);
       return softmax == nullptr || softmax->sinks;
     },
     "cpu_offloading of latent attention and of sinks", "leave 'offload_activations' out"},
    {[](const Job& job) { return job.parallelism.context > 1; },
     "cpu_offloading over context-parallel ranks", "leave 'context' out"},
    {[](const Job& job) { return job.model.adapter.has_value(); }, "cpu_offloading beside adapters",
     "leave one of the two out"},
};

void check_layers(const SourceSpan& span, const Job& job, Diagnostics& diagnostics) {
  for (const Unrecorded& one : kUnread) {
    if (!one.asked(job)) continue;
    return diagnostics.push_back(unavailable_at(span, one.noun, one.hint));
  }
  for (const Unrecorded& one : kRaised) {
    if (one.asked(job)) diagnostics.push_back(error_at(span, one.noun, one.hint));
  }
}

/// TransformerConfig.cpu_offloading_num_layers.
std::int64_t offloaded_layers(const Value& written, const Value& method, Diagnostics& diagnostics) {
  const Value* layers = written.find("layers");
  const bool by_layer = method.text == "cpu_offloading";
  if (by_layer && layers == nullptr) {
    diagnostics.push_back(error_at(method.span, "cpu_offloading of no layers",
                                   "write 'layers', as 8: Megatron's cpu_offloading_num_layers"));
  } else if (!by_layer && layers != nullptr) {
    diagnostics.push_back(error_at(layers->span, "'layers' is of the method cpu_offloading",
                                   "leave it out, or write 'method: cpu_offloading'"));
  }
  const Value* pinned = written.find("pin_memory");
  if (by_layer && pinned != nullptr && !as_flag(pinned).value_or(true)) {
    diagnostics.push_back(error_at(pinned->span, "cpu_offloading copies to page-locked memory",
                                   "leave 'pin_memory' out"));
  }
  return by_layer ? as_count(layers).value_or(0) : 0;
}

}  // namespace

void read_activation_offload(const Value& training, TrainingSpec& spec, Diagnostics& diagnostics) {
  const Value* written = training.find("offload_activations");
  if (written == nullptr) return;
  const Value* method = written->find("method");
  if (method != nullptr) spec.offloaded_layers = offloaded_layers(*written, *method, diagnostics);
  if ((method == nullptr ? written : method)->text != "save_on_cpu") return;
  spec.offload_activations =
      SaveOnCpu{.pin_memory = as_flag(written->find("pin_memory")).value_or(false)};
}

void check_offload_activations(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || !job.training->saves_on_host()) return;
  const SourceSpan& span = root.find("training")->find("offload_activations")->span;
  if (job.training->offloaded_layers > 0) return check_layers(span, job, diagnostics);
  for (const Unrecorded& one : kUnrecorded) {
    if (!one.asked(job)) continue;
    diagnostics.push_back(unavailable_at(span, one.noun, one.hint));
    return;
  }
}

}  // namespace memest
