#include "graph/lower/ops/decoder_context.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/float8/float8_linear.hpp"
#include "graph/lower/liger/liger.hpp"
#include "graph/lower/quantized/quantized_linear.hpp"
#include "graph/lower/trl/trl.hpp"
#include "graph/lower/vision/vision.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

Unavailable not_available(const char* what) {
  return {std::string("memory and time of ") + what +
          " are not available yet; parameter counts are"};
}

/// Why the decoder has no graph, or nothing.
std::optional<Unavailable> refusal(const DecoderSpec& decoder, const LoweringPolicy& policy,
                                   const DecoderProgram& program) {
  const LibraryParts& has = program.has;
  if (std::holds_alternative<LatentAttention>(decoder.attention) && !has.latent_attention) {
    return not_available("multi-head latent attention");
  }
  for (const LayerKind& kind : decoder.kinds) {
    if (!has.experts && std::holds_alternative<MixtureOfExperts>(kind.feed_forward)) {
      return not_available("mixtures of experts of this implementation");
    }
  }
  if (decoder.head != DecoderHead::language_model) {
    return not_available("decoders without a language-model head");
  }
  if (!has.inference && !policy.gradients) {
    return Unavailable{
        "inference is that of the implementation transformers; others are not "
        "available yet"};
  }
  if (!has.key_value_cache && policy.key_value_cache) {
    return Unavailable{"the key-value cache is that of the implementation transformers"};
  }
  if (!has.sum_of_logits && policy.end == ForwardEnd::sum_of_logits) {
    return Unavailable{
        "the loss 'sum-of-logits' is available with the implementation "
        "transformers only"};
  }
  return program.refusal == nullptr ? std::nullopt : program.refusal(decoder, policy);
}

/// Why inference with the layer's attention has no graph, or nothing.
std::optional<Unavailable> inference_refusal(const DecoderContext& context, const LayerKind& kind) {
  if (context.policy.gradients || context.habits.scores == ScoreWriting::renamed) return {};
  const AttentionCall call = attention_call(context, kind);
  // The model holds the weights that a layer answers until the next one has answered.
  if (call.kernel == AttentionKernel::eager) {
    return not_available("inference of this model_type with attention written out");
  }
  if (call.mask_by_head && context.policy.autocast) {
    return not_available("inference under autocast of a model with ALiBi");
  }
  return std::nullopt;
}

/// Experts are parameters of one module, which no adapter of peft's names.
bool adapts_attention_alone(const DecoderContext& context) {
  const DecoderNames& names = context.names;
  const auto of_attention = [&names](const std::string& target) {
    return is_named(names.q, target) || is_named(names.k, target) || is_named(names.v, target) ||
           is_named(names.attention_output, target);
  };
  const std::vector<std::string>& targets = context.adapter->targets;
  return context.adapter->whole_modules.empty() && !targets.empty() &&
         std::all_of(targets.begin(), targets.end(), of_attention);
}

/// Why the layer's mixture of experts has no graph, or nothing.
std::optional<Unavailable> mixture_refusal(const DecoderContext& context, const LayerKind& kind) {
  const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward);
  if (experts == nullptr) return std::nullopt;
  if (context.program.mixture != nullptr) {
    if (context.compiles_layers()) return not_available("torch.compile of mixtures of experts");
    return std::nullopt;
  }
  const RouterWriting router = context.habits.router;
  const bool by_groups = router == RouterWriting::of_groups || router == RouterWriting::of_sigmoid;
  const bool shares_ungated = experts->shared_size > 0 && !experts->shared_gate;
  const bool biased = router == RouterWriting::of_choice;
  if (router == RouterWriting::unknown || experts->expert_bias != biased ||
      experts->router_bias != biased ||
      experts->correction_bias_buffer != (router == RouterWriting::of_sigmoid) ||
      shares_ungated != by_groups || (experts->groups > 0 && !by_groups) || !experts->gated) {
    return not_available("such mixtures of experts");
  }
  if (experts->capacity_factor > 0) {
    return Unavailable{
        "transformers computes every token's experts: 'capacity_factor' is of the implementation "
        "megatron"};
  }
  if (experts->router_noise) return not_available("the router's noise (router_jitter_noise)");
  if (experts->balance_loss) {
    return not_available("the load-balancing loss (output_router_logits)");
  }
  if (context.adapter != nullptr && !adapts_attention_alone(context)) {
    return not_available("adapters of other modules than attention's projections beside experts");
  }
  if (context.compiles_layers()) return not_available("torch.compile of mixtures of experts");
  return std::nullopt;
}

/// Why latent attention has no graph, or nothing.
std::optional<Unavailable> latent_refusal(const DecoderContext& context) {
  if (context.latent() == nullptr) return std::nullopt;
  if (context.habits.latents == LatentWriting::unknown ||
      !std::holds_alternative<RotaryPosition>(context.decoder.position)) {
    return Unavailable{
        "multi-head latent attention is written in DeepSeek V2's and V3's ways: read the model "
        "from its config with 'hf', whose model_type says which"};
  }
  if (context.adapter != nullptr) return not_available("adapters of multi-head latent attention");
  if (!context.policy.gradients) return not_available("inference with multi-head latent attention");
  if (context.compiles_layers()) return not_available("torch.compile of latent attention");
  return std::nullopt;
}

/// Whether the model does nothing with its embeddings before peft joins the prompt's to them.
bool takes_prompt(const DecoderContext& context) {
  const DecoderSpec& decoder = context.decoder;
  const bool scales_behind = decoder.scaled_embedding && !context.habits.scale_is_tensor;
  return decoder.embedding_size == decoder.hidden_size && !decoder.embedding_norm &&
         !scales_behind && !context.habits.positions_from_mask &&
         !std::holds_alternative<AlibiPosition>(decoder.position);
}

/// Why the adapter has no graph, or nothing.
std::optional<Unavailable> adapter_refusal(const DecoderContext& context) {
  if (context.adapter == nullptr) return std::nullopt;
  if (!context.program.has.adapters) {
    return Unavailable{
        "adapters are peft's, which adapts models of the implementation transformers"};
  }
  if (context.attention.sinks) return not_available("adapters beside attention sinks");
  if (context.policy.end == ForwardEnd::sum_of_logits) {
    return not_available("adapters under the loss 'sum-of-logits'");
  }
  const DecoderSpec& decoder = context.decoder;
  if (context.adapter->is_prompt() && !takes_prompt(context)) {
    return not_available("prompts before the embeddings of this family");
  }
  for (const std::string& module : context.adapter->whole_modules) {
    const bool head = is_named(context.names.head, module);
    const bool tied = decoder.tied_embeddings && head;
    if (tied || !has_module(context, module) || (context.vision != nullptr && !head)) {
      return Unavailable{"training of the module '" + module +
                         "' in full beside adapters is not available yet"};
    }
  }
  for (const std::string& target : context.adapter->targets) {
    if (decoder.tied_embeddings && is_named(context.names.head, target)) {
      return not_available("an adapter of a tied output head");
    }
    if (context.vision != nullptr) {
      if (auto refused = tower_adapter_refusal(context, target)) return refused;
      if (has_tower_module(context, target)) continue;
    }
    if (!has_module(context, target)) {
      return Unavailable{"this model has no linear module that '" + target +
                         "' of 'adapter' names, or none whose adapter is available yet"};
    }
  }
  return std::nullopt;
}

/// Why the factorised layers have no graph, or nothing.
std::optional<Unavailable> low_rank_refusal(const DecoderContext& context) {
  if (context.low_rank == nullptr) return std::nullopt;
  if (!context.program.has.low_rank) {
    return not_available("low-rank factorisation under another implementation than transformers");
  }
  if (context.compiles_layers()) return not_available("torch.compile of factorised layers");
  for (const std::string& module : context.low_rank->modules) {
    if (has_layer_module(context, module)) continue;
    return Unavailable{"this model's layers have no linear module that '" + module +
                       "' of 'low_rank' names, or none whose factors are available yet"};
  }
  return std::nullopt;
}

/// nanoGPT's model.
bool is_gpt(const DecoderContext& context) {
  const DecoderSpec& decoder = context.decoder;
  return !context.program.passes_masks &&
         std::holds_alternative<LearnedPosition>(decoder.position) &&
         decoder.norm.kind == NormKind::layernorm && decoder.layout == BlockLayout::pre_norm &&
         decoder.kinds.size() == 1;
}

/// transformers' LLaMA, and what is written like it.
bool is_llama(const DecoderContext& context) {
  const DecoderSpec& decoder = context.decoder;
  const Habits& habits = context.habits;
  const SoftmaxAttention& attention = context.attention;
  const bool scales = decoder.scaled_embedding || decoder.scaled_residual ||
                      decoder.scaled_logits || decoder.logit_softcap;
  const bool plain_tables =
      !habits.tables_by_layer && !habits.tables_in_fp32 && !habits.rotates_halves;
  return context.program.passes_masks && std::holds_alternative<RotaryPosition>(decoder.position) &&
         habits.rms_norm == NormWriting::cast_then_gain && decoder.norm.kind == NormKind::rmsnorm &&
         decoder.layout == BlockLayout::pre_norm && decoder.kinds.size() == 1 &&
         !decoder.kinds.front().sliding_window && attention.qk_norm == QkNorm::none &&
         !attention.q_bias && !attention.kv_bias && plain_tables && !scales;
}

/// Why the layers are not compiled, or nothing: what the rules of a compiled region are not known
/// for.
std::optional<Unavailable> compile_refusal(const DecoderContext& context, const LayerKind& kind) {
  if (!context.compiles_layers()) return std::nullopt;
  if (!context.policy.gradients) return not_available("torch.compile under 'inference'");
  if (context.caches()) return not_available("torch.compile with a key-value cache");
  if (context.compiles_whole() && context.policy.runs_again != RunsAgain::nothing) {
    return not_available("torch.compile of a whole model beside recompute");
  }
  if (context.compiles_whole() && !is_gpt(context) && !is_llama(context)) {
    return not_available("torch.compile of another whole model than nanoGPT's or a LLaMA");
  }
  switch (attention_call(context, kind).kernel) {
    case AttentionKernel::sdpa_flash:
    case AttentionKernel::sdpa_efficient:
    case AttentionKernel::sdpa_cudnn:
      return std::nullopt;
    case AttentionKernel::sdpa:
    case AttentionKernel::sdpa_math:
    case AttentionKernel::eager:
    case AttentionKernel::textbook:
    case AttentionKernel::unfused:
    case AttentionKernel::te:
      return not_available("torch.compile of attention that is not one kernel");
    case AttentionKernel::flash_2:
      return not_available("torch.compile of layers that call the flash-attn package");
  }
  return std::nullopt;
}

Dimensions dimensions_of(const DecoderSpec& decoder, const LoweringPolicy& policy) {
  Dimensions dims;
  if (decoder.embedding_size != decoder.hidden_size) dims.embedding = Expr(decoder.embedding_size);
  const std::int64_t value_dim = value_dim_of(decoder.attention);
  if (value_dim != heads_of(decoder.attention).head_dim) dims.value = Expr(value_dim);
  if (policy.joined) {
    dims.documents = Expr(policy.joined->documents) * Expr(Symbol::micro_batch);
    dims.b = Expr(1);
    dims.s = dims.stream_s = dims.keys = Expr(Symbol::micro_batch) * Expr(Symbol::seq_len);
  }
  if (policy.past.value_or(0) > 0) {
    dims.s = Expr(1);
    dims.stream_s = Expr(1);
    dims.keys = Symbol::cached_keys;
  }
  const bool shards = shards_by_dtensor(policy);
  if (!policy.symbolic_tensor_parallel && !shards) return dims;
  const Expr t = Symbol::tensor;
  dims.a = dims.a / t;
  dims.k = dims.k / t;
  if (shards) dims.v = dims.v / t;
  if (policy.sequence_parallel) dims.stream_s = dims.s / t;
  return dims;
}

}  // namespace

bool shards_by_dtensor(const LoweringPolicy& policy) {
  return row_of(policy.implementation.framework).splits.by_dtensor && policy.tensor > 1;
}

Expr DecoderContext::feed_forward_size(std::int64_t size) const {
  const auto* first = std::get_if<DenseFeedForward>(&decoder.kinds.front().feed_forward);
  const Expr whole = first != nullptr && first->size == size ? Expr(Symbol::ffn_size) : Expr(size);
  const bool cut = shards_tensors() || policy.symbolic_tensor_parallel;
  return cut ? whole / Expr(Symbol::tensor) : whole;
}

TensorId rope_cache(BlockBuilder& block, const DecoderContext& context) {
  const Expr& s = context.dims.s;
  const Expr positions = context.policy.context == 1 ? s : s * Expr(Symbol::context);
  const Shape shape = {positions, Expr(2) * context.dims.d};
  const TensorId table = block.shared(kRopeCache, shape, DType::fp32);
  block.tensor(table).role = Role::buffer;
  return table;
}

DecoderContext context_of_kind(const DecoderContext& context, const LayerKind& kind) {
  DecoderContext own = context;
  // DynamicSlidingWindowLayer: a view of the last `sliding_window` - 1 tokens, and the new one.
  const bool full = kind.sliding_window && context.tokens() >= *kind.sliding_window;
  if (context.decodes() && full) own.dims.keys = Expr(*kind.sliding_window);
  own.trains_all = context.policy.layers_get_gradients;
  return own;
}

std::variant<DecoderContext, Unavailable> context_of(const ModelSpec& model,
                                                     const LoweringPolicy& policy,
                                                     const DecoderProgram& program) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  if (auto refused = refusal(decoder, policy, program)) return *refused;
  const Habits* family = habits_of(model.model_type);
  if (family == nullptr) {
    return Unavailable{"memory and time of model_type '" + model.model_type +
                       "' are not available yet; parameter counts are"};
  }
  const Adapter* adapter = model.adapter ? &*model.adapter : nullptr;
  DecoderContext context{decoder,
                         policy,
                         program,
                         program.habits(*family),
                         dimensions_of(decoder, policy),
                         names_of(stored_type(model.model_type, policy.implementation)),
                         adapter,
                         model.low_rank ? &*model.low_rank : nullptr,
                         model.quantized ? &*model.quantized : nullptr};
  if (model.vision) context.vision = &*model.vision;
  if (context.habits.rotates_in_grids && !model.vision) {
    return not_available("the text model of Qwen2-VL without its tower");
  }
  const bool writes_sinks = context.habits.scores == ScoreWriting::with_sinks;
  if (context.attention.sinks != writes_sinks) return not_available("attention sinks");
  for (const LayerKind& kind : decoder.kinds) {
    if (auto refused = mixture_refusal(context, kind)) return *refused;
  }
  if (auto refused = latent_refusal(context)) return *refused;
  if (auto refused = adapter_refusal(context)) return *refused;
  if (auto refused = low_rank_refusal(context)) return *refused;
  if (auto refused = quantized_refusal(context)) return *refused;
  if (auto refused = liger_refusal(context)) return *refused;
  if (auto refused = float8_refusal(context)) return *refused;
  if (auto refused = trl_refusal(context)) return *refused;
  for (const LayerKind& kind : decoder.kinds) {
    if (auto refused = kernel_refusal(context, kind)) return *refused;
    if (auto refused = inference_refusal(context, kind)) return *refused;
    if (auto refused = compile_refusal(context, kind)) return *refused;
    if (program.layer_refusal == nullptr) continue;
    if (auto refused = program.layer_refusal(context, kind)) return *refused;
  }
  return context;
}

}  // namespace memest
