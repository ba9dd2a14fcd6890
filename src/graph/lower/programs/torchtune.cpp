// torchtune 0.6.1: modules/transformer.py, attention.py, feed_forward.py, rms_norm.py, and the
// builders of models/llama2, llama3, llama3_1, llama3_2, llama3_3, mistral, qwen2 and qwen2_5.
#include "graph/lower/torchtune/torchtune.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/programs/decoder.hpp"
#include "graph/lower/programs/programs.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Why the model is none that torchtune's builders make of MultiHeadAttention and FeedForward.
std::optional<Unavailable> torchtune_refusal(const DecoderSpec& decoder,
                                             const LoweringPolicy& policy) {
  const auto* attention = std::get_if<SoftmaxAttention>(&decoder.attention);
  const auto* rotary = std::get_if<RotaryPosition>(&decoder.position);
  const bool plain = attention != nullptr && attention->qk_norm == QkNorm::none &&
                     attention->layout == QkvLayout::separate &&
                     attention->q_bias == attention->kv_bias && !attention->output_bias &&
                     rotary != nullptr && rotary->rotary_dim == attention->head_dim;
  const bool llama = plain && decoder.layout == BlockLayout::pre_norm &&
                     decoder.norm.kind == NormKind::rmsnorm && decoder.experts() == nullptr &&
                     decoder.kinds.size() == 1 && !decoder.kinds.front().sliding_window &&
                     !decoder.head_bias && decoder.embedding_size == decoder.hidden_size &&
                     !decoder.scaled_embedding && !decoder.scaled_logits &&
                     !decoder.logit_softcap && !decoder.scaled_residual;
  if (!llama) {
    return Unavailable{
        "the implementation torchtune is available for models of LLaMA's architecture and "
        "Qwen2's, whose queries, keys and values have biases, only"};
  }
  if (decoder.max_positions > 0 && policy.seq_len > decoder.max_positions) {
    return Unavailable{"torchtune's model is made for " + std::to_string(decoder.max_positions) +
                       " positions: sequences of " + std::to_string(policy.seq_len) +
                       " tokens are longer"};
  }
  return std::nullopt;
}

const SoftmaxAttention& attention_of(const DecoderSpec& decoder) {
  return std::get<SoftmaxAttention>(decoder.attention);
}

/// Builders of longer sequences (llama3_1, llama3_2, llama3_3) make one table of rotations for all
/// layers, as all do without adapters. With them those of llama2, llama3, mistral, and qwen2
/// whatever the length, make one in each layer (lora_llama3_self_attention,
/// lora_qwen2_self_attention).
constexpr std::int64_t kMostPositionsByLayer = 32'768;

bool rotates_by_layer(const ModelSpec& model) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  const bool shorter = decoder.max_positions <= kMostPositionsByLayer;
  return model.adapter && (shorter || is_of_qwen2(attention_of(decoder)));
}

/// RotaryPositionalEmbeddings' buffers, which are not saved: frequencies, and a cosine and a sine
/// of each at every position that the model is made for; Qwen2's have both of each twice.
void add_rotary_buffers(const ModelSpec& model, std::int64_t seq_len, Inventory& inventory) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  const SoftmaxAttention& attention = attention_of(decoder);
  const std::int64_t pairs = attention.head_dim / 2;
  const std::int64_t numbers = is_of_qwen2(attention) ? 4 : 2;
  const std::int64_t positions = decoder.max_positions > 0 ? decoder.max_positions : seq_len;
  const std::int64_t tables = rotates_by_layer(model) ? decoder.layers() : 1;
  const std::size_t first = inventory.buffers.size();
  inventory.buffers.push_back({.name = "pos_embeddings.theta", .shape = {pairs}, .count = tables});
  inventory.buffers.push_back(
      {.name = "pos_embeddings.cache", .shape = {positions, pairs, numbers}, .count = tables});
  const std::vector<PlacementStep> steps = {{true, first, 1}, {true, first + 1, 1}};
  if (tables == 1) {
    inventory.placement.insert(inventory.placement.begin(), {.steps = steps});
    return;
  }
  for (PlacementRun& run : inventory.placement) {
    if (run.layers) run.steps.insert(run.steps.end(), steps.begin(), steps.end());
  }
}

Habits torchtune_habits(const Habits& /*family*/) {
  Habits habits = written_out({});
  habits.rms_norm = NormWriting::called_in_fp32;
  habits.locals = LayerLocals::sums;
  return habits;
}

constexpr DecoderProgram kTorchtuneProgram = {.has = {.adapters = true, .quantized = true},
                                              .habits = torchtune_habits,
                                              .refusal = torchtune_refusal,
                                              .rotations = Rotations::in_turn,
                                              .head_repeats = HeadRepeats::by_heads,
                                              .names_attention = true,
                                              .adapter = AdapterWriting::of_modules,
                                              .feed_forward_module = true,
                                              .sdpa = resolve_sdpa,
                                              .head_and_loss = torchtune_head_and_loss};

}  // namespace

std::variant<Graph, Unavailable> lower_torchtune(const ModelSpec& model,
                                                 const LoweringPolicy& policy) {
  auto result = lower_decoder(model, policy, kTorchtuneProgram);
  if (auto* graph = std::get_if<Graph>(&result)) {
    add_rotary_buffers(model, policy.seq_len, graph->parameters);
  }
  return result;
}

}  // namespace memest
