#include "memest/graph/parameters.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "graph/parameters/adapter_parameters.hpp"
#include "graph/parameters/decoder_parameters.hpp"
#include "graph/parameters/low_rank_parameters.hpp"
#include "graph/parameters/megatron_parameters.hpp"
#include "graph/parameters/parameter_names.hpp"
#include "graph/parameters/quantized_parameters.hpp"
#include "graph/parameters/shared_parameters.hpp"
#include "graph/parameters/vision_parameters.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// The parameters and buffers of one plain layer.
struct PlainLayerWriter {
  InventoryBuilder& inventory;

  void operator()(const LinearLayer& layer) const {
    inventory.projection("linear", {layer.out, layer.in, layer.bias});
  }
  void operator()(const NormLayer& layer) const {
    if (layer.kind == NormKind::layernorm && layer.bias) {
      inventory.layer_norm("layernorm", layer.size);
    } else {
      inventory.rms_norm(layer.kind == NormKind::layernorm ? "layernorm" : "rmsnorm", layer.size);
    }
  }
  void operator()(const EmbeddingLayer& layer) const {
    inventory.add(ParameterTensor{.name = "embedding.weight",
                                  .shape = {layer.rows, layer.size},
                                  .role = ParameterRole::embedding});
  }
  void operator()(const ConvolutionLayer& layer) const {
    const std::int64_t from = layer.transposed ? layer.in : layer.out;
    const std::int64_t to = (layer.transposed ? layer.out : layer.in) / layer.groups;
    inventory.add(ParameterTensor{.name = "conv.weight",
                                  .shape = {from, to, layer.kernel.height, layer.kernel.width}});
    if (!layer.bias) return;
    inventory.add(
        ParameterTensor{.name = "conv.bias", .shape = {layer.out}, .role = ParameterRole::bias});
  }
  /// torch.nn.BatchNorm2d(affine=True, track_running_stats=True).
  void operator()(const BatchNormLayer& layer) const {
    inventory.layer_norm("batchnorm", layer.size);
    for (const char* name : {"batchnorm.running_mean", "batchnorm.running_var"}) {
      inventory.add(BufferTensor{.name = name, .shape = {layer.size}, .as_weights = true});
    }
    inventory.add(
        BufferTensor{.name = "batchnorm.num_batches_tracked", .shape = {}, .dtype = DType::int64});
  }
  void operator()(const ResidualLayer& layer) const {
    write(layer.body);
    write(layer.shortcut);
  }
  void operator()(const ConcatLayer& layer) const {
    for (const std::vector<PlainLayer>& branch : layer.branches) write(branch);
    write(layer.then);
  }
  void operator()(const DenseLayer& layer) const {
    for (const std::vector<PlainLayer>& round : layer.rounds) write(round);
  }
  template <class Other>
  void operator()(const Other&) const {}

  void write(const std::vector<PlainLayer>& layers) const {
    for (const PlainLayer& layer : layers) std::visit(*this, layer);
  }
};

Inventory parameters_of_layers(const LayerList& layers) {
  InventoryBuilder inventory;
  for (const LayerBlock& block : layers.blocks) {
    inventory.repeat(block.repeat);
    PlainLayerWriter{inventory}.write(block.block);
  }
  return std::move(inventory).take();
}

std::int64_t elements_of_shape(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements = checked_multiply(elements, size);
  return elements;
}

/// Whether the tensor is a contraction's weight, tied output heads included.
bool contracts(const ParameterTensor& tensor) {
  return tensor.role == ParameterRole::matmul || tensor.output_head;
}

void count_tensor(const ParameterTensor& tensor, ParameterCounts& counts) {
  const std::int64_t elements = elements_of_shape(tensor.shape);
  const std::int64_t all = checked_multiply(elements, tensor.count);
  const std::int64_t active =
      checked_multiply(all / tensor.active_denominator, tensor.active_numerator);
  counts.total = checked_add(counts.total, all);
  if (tensor.wants_gradient()) counts.trainable = checked_add(counts.trainable, all);
  counts.active = checked_add(counts.active, active);
  if (contracts(tensor)) {
    counts.matmul = checked_add(counts.matmul, all);
    counts.active_matmul = checked_add(counts.active_matmul, active);
  }
  counts.tensors = checked_add(counts.tensors, tensor.count);
  counts.largest = std::max(counts.largest, elements);
}

struct ParameterWriter {
  std::string_view model_type;

  Inventory operator()(const DecoderSpec& decoder) const {
    return parameters_of_decoder(decoder, model_type);
  }
  Inventory operator()(const LayerList& layers) const { return parameters_of_layers(layers); }
  Inventory operator()(const Inventory& inventory) const { return inventory; }
};

/// The parameters of all ranks where an adapter's targets are named as Megatron's layers are.
Inventory parameters_of_whole_megatron(const ModelSpec& model) {
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  LoweringPolicy whole;
  // Experts that share an adapter are grouped.
  const bool grouped = model.experts() != nullptr;
  whole.implementation.layers = grouped ? LayerSpec::te : LayerSpec::local;
  return with_parallel_adapter(parameters_of_megatron(decoder, whole), {*model.adapter, 1});
}

/// The targets that a model's one product of queries, keys and values has, if it has one.
std::optional<JointTargets> joint_targets(const ModelSpec& model, const Implementation& framework) {
  const auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (!row_of(framework.framework).joins_projections || decoder == nullptr) return std::nullopt;
  const DecoderNames& names = names_of(stored_type(model.model_type, framework));
  const SoftmaxAttention heads = heads_of(decoder->attention);
  const std::int64_t shared = checked_multiply(heads.kv_heads, heads.head_dim);
  return JointTargets{names.qkv,
                      {{{names.q, checked_multiply(heads.heads, heads.head_dim)},
                        {names.k, shared},
                        {names.v, shared}}}};
}

}  // namespace

ModelSpec as_programmed(ModelSpec model, const Implementation& implementation) {
  const FrameworkRow& framework = row_of(implementation.framework);
  auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (decoder == nullptr) return model;
  auto* attention = std::get_if<SoftmaxAttention>(&decoder->attention);
  if (framework.joins_projections && attention != nullptr) attention->layout = QkvLayout::fused;
  if (framework.unties_embeddings) decoder->tied_embeddings = false;
  return model;
}

Inventory parameters_of(const ModelSpec& given, const Implementation& implementation) {
  const ModelSpec model = as_programmed(given, implementation);
  if (model.adapter && model.adapter->parallel) return parameters_of_whole_megatron(model);
  const std::string_view type = stored_type(model.model_type, implementation);
  Inventory own = std::visit(ParameterWriter{type}, model.architecture);
  if (model.vision) own = with_vision(own, model);
  const bool stored_in_out = names_of(model.model_type).stored_in_out;
  if (model.low_rank) own = with_low_rank(own, *model.low_rank, stored_in_out);
  if (model.shared_layers) own = with_shared_layers(own, *model.shared_layers);
  if (model.quantized) own = with_codes(std::move(own), *model.quantized);
  if (!model.adapter || model.vision) return own;
  const auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (model.adapter->is_prompt() && decoder != nullptr) {
    return with_prompt(own, *model.adapter, decoder->hidden_size);
  }
  return with_adapter(own, {*model.adapter, stored_in_out, joint_targets(model, implementation)});
}

Bytes buffer_bytes(const Inventory& inventory) {
  Bytes bytes;
  for (const BufferTensor& buffer : inventory.buffers) {
    const std::int64_t elements = checked_multiply(elements_of_shape(buffer.shape), buffer.count);
    bytes += Bytes(checked_multiply(elements, size_of(buffer.dtype)));
  }
  return bytes;
}

ParameterCounts count_parameters(const Job& job) {
  const ForwardSpec* const forward = job.forward();
  return count_parameters(job.model,
                          forward == nullptr ? Implementation{} : forward->implementation);
}

ParameterCounts count_parameters(const ModelSpec& model, const Implementation& implementation) {
  const Inventory inventory = parameters_of(model, implementation);
  ParameterCounts counts;
  for (const ParameterTensor& tensor : inventory.parameters) count_tensor(tensor, counts);
  const auto table = std::find_if(
      inventory.parameters.begin(), inventory.parameters.end(),
      [](const ParameterTensor& tensor) { return tensor.role == ParameterRole::embedding; });
  if (table != inventory.parameters.end()) counts.embedding = elements_of_shape(table->shape);
  counts.buffers = buffer_bytes(inventory);
  return counts;
}

}  // namespace memest
