#include "memest/graph/lower.hpp"

#include <utility>

#include "graph/lower/megatron/megatron.hpp"
#include "graph/lower/programs/decoder.hpp"
#include "graph/lower/programs/plain.hpp"
#include "graph/parameters/megatron_parameters.hpp"
#include "graph/parameters/parameter_names.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// The model as the implementation stores it: nanoGPT has one matrix for queries, keys and values,
/// whatever the spec says.
ModelSpec stored(ModelSpec model, const Implementation& implementation) {
  auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (decoder == nullptr || implementation.framework != Framework::nanogpt) return model;
  auto* attention = std::get_if<SoftmaxAttention>(&decoder->attention);
  if (attention != nullptr && attention->q_bias == attention->kv_bias &&
      attention->qk_norm != QkNorm::full_width) {
    attention->layout = QkvLayout::fused;
  }
  return model;
}

/// The share of one of `ranks`: rows of a matrix or, where its product sums over the ranks,
/// columns. Gains of norms are whole.
void cut_over_tensor_ranks(std::int64_t ranks, Inventory& inventory) {
  for (ParameterTensor& row : inventory.parameters) {
    if (row.role == ParameterRole::norm) continue;
    const DecoderNames& names = names_of(kTorchtitan);
    const bool sums = row.name.find(names.attention_output) != std::string::npos ||
                      row.name.find(names.down) != std::string::npos;
    (sums ? row.shape.back() : row.shape.front()) /= ranks;
  }
}

/// Megatron's training program rounds the vocabulary up for its shards
/// (make_vocab_size_divisible_by); its library alone takes it as it is.
ModelSpec with_padded_vocabulary(ModelSpec model, const LoweringPolicy& policy) {
  constexpr std::int64_t kMultiple = 128;
  auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (decoder == nullptr || policy.implementation.layers != LayerSpec::te) return model;
  const std::int64_t multiple = checked_multiply(kMultiple, policy.tensor);
  const std::int64_t shards = checked_add(decoder->vocab_size, multiple - 1) / multiple;
  decoder->vocab_size = checked_multiply(shards, multiple);
  return model;
}

/// torchtitan's model keeps the rotations of all its positions, as complex numbers, or as cosines
/// beside sines (Qwen3).
void add_rotations(const ModelSpec& model, std::int64_t positions, Inventory& inventory) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  const auto& attention = std::get<SoftmaxAttention>(decoder.attention);
  inventory.placement.push_back({.steps = {{true, inventory.buffers.size(), 1}}});
  if (attention.qk_norm == QkNorm::none) {
    inventory.buffers.push_back(
        {.name = "freqs_cis", .shape = {positions, attention.head_dim / 2, 2}});
  } else {
    inventory.buffers.push_back(
        {.name = "rope_cache", .shape = {positions, 2 * attention.head_dim}});
  }
}

/// The tensors of a pipeline rank's stages, in the order in which they are placed: of every stage
/// the rows before the layers where it has the embedding, its layers, the rows behind them where it
/// has the head, and the rotations.
Inventory of_parts(const Inventory& whole, const std::vector<ModelPart>& parts) {
  InventoryBuilder inventory;
  for (const ModelPart& part : parts) {
    bool behind_layers = false;
    for (const PlacementRun& run : whole.placement) {
      behind_layers = behind_layers || run.layers;
      const bool is_buffer = run.steps.front().buffer;
      if (!run.layers && !is_buffer && !(behind_layers ? part.head : part.embedding)) continue;
      if (run.layers) {
        inventory.repeat_layer(part.count);
      } else {
        inventory.repeat(run.repeat);
      }
      for (const PlacementStep& step : run.steps) {
        if (step.buffer) {
          BufferTensor row = whole.buffers[step.row];
          row.count = step.count;
          inventory.add(std::move(row));
        } else {
          ParameterTensor row = whole.parameters[step.row];
          row.count = step.count;
          inventory.add(std::move(row));
        }
      }
    }
  }
  return std::move(inventory).take();
}

std::variant<Graph, Unavailable> of_layers(const LayerList& layers, const ModelSpec& model,
                                           const LoweringPolicy& policy) {
  if (model.adapter) return Unavailable{"adapters of a list of layers are not available yet"};
  if (policy.end != ForwardEnd::cross_entropy || policy.key_value_cache) {
    return Unavailable{"a list of layers has no logits and no cache: its loss is its mean square"};
  }
  return lower_layers(layers, policy);
}

}  // namespace

std::variant<Graph, Unavailable> lower(const ModelSpec& model, const LoweringPolicy& policy) {
  const bool is_decoder = std::holds_alternative<DecoderSpec>(model.architecture);
  if (is_decoder && policy.implementation.framework == Framework::megatron) {
    const ModelSpec padded = with_padded_vocabulary(model, policy);
    auto result = lower_megatron(padded, policy);
    if (auto* graph = std::get_if<Graph>(&result)) {
      graph->parameters =
          parameters_of_megatron(std::get<DecoderSpec>(padded.architecture), policy);
    }
    return result;
  }
  const ModelSpec as_stored = stored(model, policy.implementation);
  std::variant<Graph, Unavailable> result =
      Unavailable{"memory and time of this family are not available yet; parameter counts are"};
  if (std::holds_alternative<DecoderSpec>(as_stored.architecture)) {
    result = lower_decoder(as_stored, model.model_type, policy);
  } else if (const auto* layers = std::get_if<LayerList>(&model.architecture)) {
    result = of_layers(*layers, model, policy);
  }
  if (auto* graph = std::get_if<Graph>(&result)) {
    graph->parameters = parameters_of(as_stored, policy.implementation);
    if (policy.implementation.framework == Framework::torchtitan) {
      cut_over_tensor_ranks(policy.tensor, graph->parameters);
      add_rotations(as_stored, checked_multiply(policy.seq_len, policy.context), graph->parameters);
      if (!policy.parts.empty()) graph->parameters = of_parts(graph->parameters, policy.parts);
    }
    for (BufferTensor& buffer : graph->parameters.buffers) {
      if (buffer.as_weights) buffer.dtype = policy.stored.value_or(policy.weights);
    }
  }
  return result;
}

}  // namespace memest
