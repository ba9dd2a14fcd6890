#include "graph/lower/nanotron/nanotron.hpp"

#include <optional>
#include <string>
#include <utility>

namespace memest {
namespace {

Unavailable not_in_nanotron(const std::string& what) {
  return {"nanotron's LlamaForTraining has no " + what};
}

std::optional<Unavailable> refusal(const SoftmaxAttention& attention, const DecoderSpec& decoder) {
  if (attention.sinks || attention.softcap) return not_in_nanotron("softcap or sinks");
  if (attention.qk_norm != QkNorm::none) return not_in_nanotron("norm of queries and keys");
  if (attention.q_bias || attention.kv_bias || attention.output_bias) {
    return not_in_nanotron("bias in its products");
  }
  if (attention.head_dim * attention.heads != decoder.hidden_size) {
    return not_in_nanotron("heads of another size than hidden_size / heads");
  }
  return std::nullopt;
}

std::optional<Unavailable> refusal_of_layer(const LayerKind& kind) {
  if (kind.sliding_window) return not_in_nanotron("sliding window");
  const auto* dense = std::get_if<DenseFeedForward>(&kind.feed_forward);
  if (dense == nullptr) return not_in_nanotron("mixture of experts");
  if (dense->bias) return not_in_nanotron("bias in its products");
  const bool one_kernel = dense->activation == ActivationFunction::silu ||
                          dense->activation == ActivationFunction::gelu ||
                          dense->activation == ActivationFunction::gelu_tanh;
  if (!dense->gated || !one_kernel)
    return not_in_nanotron("feed-forward but silu's and gelu's gated");
  return std::nullopt;
}

/// Why the model has no graph, or nothing.
std::optional<Unavailable> refusal(const DecoderSpec& decoder) {
  const auto* softmax = std::get_if<SoftmaxAttention>(&decoder.attention);
  if (softmax == nullptr) return not_in_nanotron("latent attention");
  if (auto refused = refusal(*softmax, decoder)) return refused;
  if (decoder.kinds.size() > 1) return not_in_nanotron("layers of several kinds");
  if (auto refused = refusal_of_layer(decoder.kinds.front())) return refused;
  const auto* rotary = std::get_if<RotaryPosition>(&decoder.position);
  if (rotary == nullptr || !decoder.kinds.front().rotates ||
      rotary->rotary_dim != softmax->head_dim) {
    return not_in_nanotron("positions but rotary ones of whole heads");
  }
  if (decoder.layout != BlockLayout::pre_norm || decoder.norm.kind != NormKind::rmsnorm ||
      decoder.norm.bias) {
    return not_in_nanotron("norms but RMS norms before attention and feed-forward");
  }
  const bool plain_ends = decoder.final_norm && decoder.head == DecoderHead::language_model &&
                          decoder.embedding_size == decoder.hidden_size &&
                          !decoder.embedding_norm && !decoder.head_bias &&
                          !decoder.scaled_embedding && !decoder.scaled_logits &&
                          !decoder.logit_softcap && !decoder.scaled_residual;
  if (!plain_ends) return not_in_nanotron("ends but an embedding and an output head");
  return std::nullopt;
}

bool drops_out(const Dropout& dropout) {
  return dropout.embedding > 0 || dropout.attention > 0 || dropout.residual > 0 ||
         dropout.feed_forward > 0;
}

/// Why the job cannot run, or nothing.
std::optional<Unavailable> refusal(const LoweringPolicy& policy) {
  if (!policy.gradients || policy.end != ForwardEnd::cross_entropy) {
    return Unavailable{
        "anything but training with cross-entropy of the implementation nanotron is not available "
        "yet"};
  }
  if (policy.implementation.attention != AttentionKernel::flash_2) {
    return Unavailable{"nanotron calls flash-attn: leave 'attention' out"};
  }
  if (policy.multiprocessors == 0) {
    return Unavailable{
        "flash-attn's norm sums a row for every multiprocessor: their number is not known of this "
        "GPU"};
  }
  return std::nullopt;
}

MegatronContext context_of_nanotron(const DecoderSpec& decoder, const LoweringPolicy& policy) {
  MegatronContext context{decoder, std::get<SoftmaxAttention>(decoder.attention),
                          std::get<DenseFeedForward>(decoder.kinds.front().feed_forward), policy};
  if (policy.tensor == 1) return context;
  context.t = Symbol::tensor;
  context.sequence = policy.sequence_parallel;
  for (Expr* size : {&context.a, &context.k, &context.f, &context.v}) *size = *size / context.t;
  return context;
}

void write_part(const MegatronContext& context, const ModelPart& part, Graph& graph) {
  const auto append = [&graph](Block block, std::int64_t repeat) {
    graph.order.push_back({graph.blocks.size(), repeat});
    graph.blocks.push_back(std::move(block));
  };
  if (part.embedding) append(nanotron_embedding(context), 1);
  if (part.count > 0) append(nanotron_layer(context), part.count);
  if (!part.head) return;
  append(nanotron_head(context, context.decoder.tied_embeddings && part.embedding), 1);
  append(nanotron_loss(context), 1);
}

}  // namespace

std::variant<Graph, Unavailable> lower_llama_of_nanotron(const ModelSpec& model,
                                                         const LoweringPolicy& policy) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  if (model.adapter) return not_in_nanotron("adapter");
  if (auto refused = refusal(decoder)) return *std::move(refused);
  if (auto refused = refusal(policy)) return *std::move(refused);
  if (policy.dropout && drops_out(decoder.dropout)) return not_in_nanotron("dropout");
  const MegatronContext context = context_of_nanotron(decoder, policy);
  if (auto refused = uneven_layers(context)) return *std::move(refused);
  Graph graph;
  if (policy.parts.empty()) {
    write_part(context, {.first = 0, .count = decoder.layers()}, graph);
  }
  for (const ModelPart& part : policy.parts) {
    graph.stages.push_back(graph.order.size());
    write_part(context, part, graph);
  }
  graph.trains = policy.parts.empty() || policy.parts.back().head;
  bind_sizes(context, graph.sizes);
  return graph;
}

}  // namespace memest
