// litgpt 0.5.13: litgpt/model.py and lora.py, of the architectures of LLaMA and of GPT-NeoX.
#include "graph/lower/litgpt/litgpt.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/lower/programs/decoder.hpp"
#include "graph/lower/programs/programs.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Whether attention is CausalSelfAttention without norms of queries, windows and softcaps.
bool is_plain(const SoftmaxAttention& attention, const DecoderSpec& decoder) {
  const bool windows = std::ranges::any_of(
      decoder.kinds, [](const LayerKind& kind) { return kind.sliding_window.has_value(); });
  return attention.qk_norm == QkNorm::none && !attention.softcap && !attention.sinks && !windows &&
         attention.q_bias == attention.kv_bias;
}

/// Whether nothing is scaled, and each block is Block.forward's sequential or parallel one.
bool is_block(const DecoderSpec& decoder) {
  const BlockLayout layout = decoder.layout;
  const bool written = layout == BlockLayout::pre_norm ||
                       layout == BlockLayout::parallel_one_norm ||
                       layout == BlockLayout::parallel_two_norms;
  return written && decoder.kinds.size() == 1 && decoder.experts() == nullptr &&
         decoder.embedding_size == decoder.hidden_size && !decoder.scaled_embedding &&
         !decoder.scaled_logits && !decoder.logit_softcap && !decoder.scaled_residual &&
         !decoder.embedding_norm && decoder.norm.gain == NormGain::weight;
}

std::optional<Unavailable> litgpt_refusal(const DecoderSpec& decoder,
                                          const LoweringPolicy& policy) {
  const auto* attention = std::get_if<SoftmaxAttention>(&decoder.attention);
  const bool followed = attention != nullptr && is_plain(*attention, decoder) &&
                        std::holds_alternative<RotaryPosition>(decoder.position) &&
                        is_block(decoder);
  if (!followed) {
    return Unavailable{
        "the implementation litgpt is available for models of LLaMA's and GPT-NeoX's "
        "architectures only"};
  }
  // chunked_cross_entropy splits what is left behind the shift: of no rows there is no part.
  if (policy.seq_len < 2) return Unavailable{"litgpt takes no loss of sequences of one token"};
  if (decoder.max_positions > 0 && policy.seq_len > decoder.max_positions) {
    return Unavailable{"litgpt's model is made for " + std::to_string(decoder.max_positions) +
                       " positions: sequences of " + std::to_string(policy.seq_len) +
                       " tokens are longer"};
  }
  return std::nullopt;
}

void add_buffers(std::vector<BufferTensor> buffers, Inventory& inventory) {
  std::vector<PlacementStep> steps;
  for (BufferTensor& buffer : buffers) {
    steps.push_back({true, inventory.buffers.size(), buffer.count});
    inventory.buffers.push_back(std::move(buffer));
  }
  inventory.placement.push_back({.steps = std::move(steps)});
}

/// GPT's cos and sin, which are not saved: at as many positions as the sequences have.
void add_rotary_buffers(const DecoderSpec& decoder, const LoweringPolicy& policy,
                        Inventory& inventory) {
  const std::int64_t channels = std::get<RotaryPosition>(decoder.position).rotary_dim;
  std::vector<BufferTensor> tables;
  for (const char* name : {"cos", "sin"}) {
    tables.push_back(
        {.name = name, .shape = {policy.seq_len, channels}, .dtype = rotary_type(decoder, policy)});
  }
  add_buffers(std::move(tables), inventory);
}

/// LoRAQKVLinear._lora_ind: a number for each channel that is adapted, where not all are.
void add_index_buffers(const Graph& graph, std::int64_t layers, Inventory& inventory) {
  for (const Block& block : graph.blocks) {
    for (const Tensor& tensor : block.tensors) {
      if (tensor.name != kAdaptedChannels) continue;
      const std::int64_t channels = narrow_to_int64(tensor.elements().evaluate(graph.sizes));
      return add_buffers({{.name = "attn.qkv._lora_ind",
                           .shape = {channels},
                           .dtype = DType::int64,
                           .count = layers}},
                         inventory);
    }
  }
}

/// StableEmbedding's norm, and the table that it has replaced: main() has a name for it.
void add_stable_embedding(const DecoderSpec& decoder, const LoweringPolicy& policy,
                          Inventory& inventory) {
  const std::int64_t hidden = decoder.hidden_size;
  std::vector<PlacementStep> steps;
  for (const char* name : {"wte.norm.weight", "wte.norm.bias"}) {
    steps.push_back({false, inventory.parameters.size(), 1});
    inventory.parameters.push_back(
        {.name = name, .shape = {hidden}, .role = ParameterRole::norm, .trainable = false});
  }
  inventory.placement.push_back({.steps = std::move(steps)});
  add_buffers({{.name = "wte before StableEmbedding",
                .shape = {decoder.vocab_size, hidden},
                .dtype = policy.weights}},
              inventory);
}

Habits litgpt_habits(const Habits& /*family*/) {
  Habits habits = written_out({});
  habits.rms_norm = NormWriting::wide_gain;
  habits.qkv_split = QkvSplit::columns_in_order;
  habits.names_qkv = true;
  habits.locals = LayerLocals::norms;
  habits.joins_in_turn = true;
  habits.activates_last = true;
  return habits;
}

constexpr DecoderProgram kLitgptProgram = {
    .has = {.adapters = true, .quantized = true, .quantized_head = true},
    .habits = litgpt_habits,
    .refusal = litgpt_refusal,
    .token_rows = litgpt_token_rows,
    .rotations = Rotations::joined,
    .head_repeats = HeadRepeats::by_heads,
    .names_attention = true,
    .adapter = AdapterWriting::by_hand,
    .codes_of_fp16 = true,
    .adapts_joint_parts = true,
    .feed_forward_module = true,
    .sdpa = resolve_sdpa,
    .targets = Targets::second_tensor,
    .head_and_loss = litgpt_head_and_loss};

}  // namespace

std::variant<Graph, Unavailable> lower_litgpt(const ModelSpec& model,
                                              const LoweringPolicy& policy) {
  ModelSpec own = as_programmed(model, policy.implementation);
  auto& decoder = std::get<DecoderSpec>(own.architecture);
  decoder.dropout = {};
  auto result = lower_decoder(own, policy, kLitgptProgram);
  if (auto* graph = std::get_if<Graph>(&result)) {
    add_rotary_buffers(decoder, policy, graph->parameters);
    if (own.quantized) add_stable_embedding(decoder, policy, graph->parameters);
    add_index_buffers(*graph, decoder.layers(), graph->parameters);
  }
  return result;
}

}  // namespace memest
