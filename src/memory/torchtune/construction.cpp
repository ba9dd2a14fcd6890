#include "memory/torchtune/construction.hpp"

#include <string>
#include <utility>

#include "memest/spec/inventory.hpp"

namespace memest {

TorchtuneConstruction::TorchtuneConstruction(const TorchtuneParts& parts)
    : inventory_(parts.inventory),
      tensors_(parts.tensors),
      placement_(parts.placement),
      rotations_(parts),
      has_magnitudes_(parts.job.model.adapter &&
                      parts.job.model.adapter->kind == AdapterKind::dora) {}

const ParameterTensor& TorchtuneConstruction::row(std::size_t parameter) const {
  return inventory_.parameters[tensors_.parameters[parameter].row];
}

void TorchtuneConstruction::write() {
  if (!rotations_.by_layer()) rotations_.make();
  std::vector<std::size_t> layer;
  std::int64_t running = 0;
  for (std::size_t i = 0; i < tensors_.parameters.size(); ++i) {
    const std::int64_t number = tensors_.parameters[i].layer;
    if (number != running) make_layer(std::exchange(layer, {}));
    running = number;
    if (number > 0) layer.push_back(i);
  }
  make_layer(layer);
  make_rest();
  load();
  if (has_magnitudes_) initialize_magnitudes();
}

/// lora_llama3_self_attention() makes its table behind the projections.
void TorchtuneConstruction::make_layer(std::span<const std::size_t> parameters) {
  bool in_attention = !parameters.empty();
  while (!parameters.empty()) {
    const std::size_t first = parameters.front();
    if (in_attention && !row(first).name.starts_with("attn.")) {
      in_attention = false;
      if (rotations_.by_layer()) rotations_.make();
    }
    std::size_t made = 1;
    if (row(first).quantized) {
      made = make_coded(parameters);
    } else {
      placement_.place_parameter(first);
    }
    parameters = parameters.subspan(made);
  }
}

/// LoRALinear and FrozenNF4Linear: torch.nn.Linear's weight and bias, codes of the weight, and
/// LoRA's matrices, behind which the weight goes. Answers how many parameters these are.
std::size_t TorchtuneConstruction::make_coded(std::span<const std::size_t> parameters) {
  const std::int64_t elements = tensors_.parameters[parameters[0]].elements;
  HeldStorage linear = placement_.make_uncoded(parameters[0], elements);
  std::size_t made = 1;
  const auto is_next = [&](auto is) {
    return made < parameters.size() && is(row(parameters[made]));
  };
  if (is_next([](const ParameterTensor& next) { return next.role == ParameterRole::bias; })) {
    placement_.place_parameter(parameters[made++]);
  }
  for (HeldStorage& kept : placement_.make_nf4(parameters[0], elements)) kept.give_up();
  while (is_next([](const ParameterTensor& next) { return next.wants_gradient(); })) {
    placement_.place_parameter(parameters[made++]);
  }
  linear.drop();
  return made;
}

/// The builder makes the embedding, then the output head, and the norm in its last call.
void TorchtuneConstruction::make_rest() {
  for (const ParameterRole role :
       {ParameterRole::embedding, ParameterRole::matmul, ParameterRole::norm}) {
    for (std::size_t i = 0; i < tensors_.parameters.size(); ++i) {
      if (tensors_.parameters[i].layer == 0 && row(i).role == role) placement_.place_parameter(i);
    }
  }
}

/// Module.load_state_dict(): codes are made of each weight that the checkpoint has, and copied.
void TorchtuneConstruction::load() {
  for (std::size_t i = 0; i < tensors_.parameters.size(); ++i) {
    if (!row(i).quantized) continue;
    const std::int64_t elements = tensors_.parameters[i].elements;
    HeldStorage sent = placement_.make_uncoded(i, elements);
    const HeldVector codes = placement_.make_nf4(i, elements);
    sent.drop();
  }
}

/// DoRALinear.initialize_dora_magnitude(): the norms of the rows of the weight and lora_b @ lora_a.
void TorchtuneConstruction::initialize_magnitudes() {
  for (std::size_t i = 0; i < tensors_.parameters.size(); ++i) {
    const ParameterTensor& weight = row(i);
    const bool adapted = weight.role == ParameterRole::matmul &&
                         weight.name.find(".base_layer.") != std::string::npos;
    if (!adapted) continue;
    const std::int64_t elements = tensors_.parameters[i].elements;
    const std::int64_t rows = weight.shape.front();
    HeldStorage base;
    if (weight.quantized) base = placement_.make_original(i);
    HeldStorage update = placement_.make_uncoded(i, elements);
    placement_.multiply();
    HeldStorage scaled = placement_.make_uncoded(i, elements);
    HeldStorage sum = placement_.make_uncoded(i, elements);
    scaled.drop();
    HeldStorage norms = placement_.make_uncoded(i, rows);
    sum.drop();
    norms.drop();
    update.drop();
    base.drop();
  }
}

}  // namespace memest
