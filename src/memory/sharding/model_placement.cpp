#include "memory/sharding/model_placement.hpp"

#include <algorithm>
#include <utility>

#include "memest/units/int128.hpp"
#include "memory/quantized/code_terms.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// Tensors of one number with which the first operation on a DTensor opens a context on the device
/// (torch/_subclasses/fake_tensor.py, init_gpu_context).
constexpr int kContextProbes = 2;

Label model_label(Holding holding, Origin origin, std::size_t place) {
  Label label;
  label.holding = holding;
  label.origin = origin;
  label.place = static_cast<std::uint32_t>(place);
  return label;
}

}  // namespace

DType placed_type(const ParameterTensor& row, const Recipe& recipe) {
  const bool widened = row.wants_gradient() && !row.whole_module;
  return widened ? recipe.trained.value_or(recipe.weights) : recipe.weights;
}

void ModelPlacement::write(bool adapted, BufferOrder buffers) {
  const bool buffers_first = buffers == BufferOrder::first;
  if (buffers_first) place_buffers();
  for (int i = 0; buffers_first && i < kContextProbes; ++i) probe_context();
  for (const auto& [is_buffer, i] : tensors_.order) {
    if (is_buffer) {
      if (spare_of_ && spare_ == kNoStorage) spare_ = place(*spare_of_, recipe_.weights);
      if (!buffers_first) place_buffer(i);
      continue;
    }
    if (!adapted || !row(i).wants_gradient()) place_parameter(i);
  }
}

void ModelPlacement::place_parameter(std::size_t parameter) {
  const ParameterTensor& tensor = row(parameter);
  if (tensor.quantized) {
    return codes_->place({tensors_.parameters[parameter].elements, tensor.shape.front()},
                         model_label(Holding::weights, Origin::parameter, parameter), recorder_);
  }
  if (widens()) {
    const StorageId placed = place(parameter, loaded_type());
    if (!casts_bias(codes_->quantized(), inventory_, tensor)) {
      narrow_.emplace_back(parameter, placed);
    }
    return;
  }
  place(parameter);
  if (tensor.role != ParameterRole::matmul) return;
  for (int copy = 0; copy < recipe_.fp8_weight_copies; ++copy) place(parameter, DType::uint8);
}

HeldVector ModelPlacement::make_parameter(std::size_t parameter) {
  const ParameterTensor& tensor = row(parameter);
  const std::int64_t elements = tensors_.parameters[parameter].elements;
  if (tensor.quantized) {
    return codes_->quantize({elements, tensor.shape.front()},
                            model_label(Holding::temporaries, Origin::parameter, parameter),
                            recorder_);
  }
  HeldVector made;
  made.push_back(place_whole(parameter, elements));
  return made;
}

void ModelPlacement::widen() {
  // Module.parameters() walks a module before its submodules, Module.to() behind them.
  std::ranges::sort(narrow_);
  for (const auto& [parameter, narrow] : narrow_) {
    place(parameter, recipe_.weights);
    recorder_.release(narrow);
  }
  narrow_.clear();
}

void ModelPlacement::place_buffers() {
  for (std::size_t i = 0; i < tensors_.buffers.size(); ++i) place_buffer(i);
}

HeldStorage ModelPlacement::place_whole(std::size_t parameter, std::int64_t elements) {
  return recorder_.make(checked_multiply(elements, size_of(type_of(parameter))),
                        model_label(Holding::weights, Origin::parameter, parameter));
}

HeldStorage ModelPlacement::make_uncoded(std::size_t parameter, std::int64_t elements) {
  return recorder_.make(checked_multiply(elements, size_of(loaded_type())),
                        model_label(Holding::temporaries, Origin::parameter, parameter));
}

HeldVector ModelPlacement::make_nf4(std::size_t parameter, std::int64_t elements) {
  return codes_->make_nf4({.elements = elements},
                          model_label(Holding::weights, Origin::parameter, parameter), recorder_);
}

HeldStorage ModelPlacement::make_original(std::size_t parameter) {
  return codes_->make_original({.elements = tensors_.parameters[parameter].elements},
                               model_label(Holding::temporaries, Origin::parameter, parameter),
                               recorder_);
}

void ModelPlacement::multiply() {
  if (buffers_ != nullptr) buffers_->use(Workspace::cublas, EngineThread::program);
}

void ModelPlacement::place_nf4_shares(std::size_t parameter) {
  const CodedMatrix share{.elements = tensors_.parameters[parameter].elements};
  for (const StoredTensor& tensor : gathered_tensors(codes_->quantized(), share, loaded_type())) {
    recorder_.allocate(checked_multiply(tensor.elements, size_of(tensor.dtype)),
                       model_label(Holding::weights, Origin::parameter, parameter));
  }
}

void ModelPlacement::probe_context() {
  recorder_.make_and_free(size_of(DType::fp32),
                          loop_label(Holding::temporaries, LoopTensor::shapes));
}

StorageId ModelPlacement::place(std::size_t parameter, DType dtype) {
  if (weights_on_host_) return kNoStorage;
  return recorder_.allocate(
      checked_multiply(tensors_.parameters[parameter].elements, size_of(dtype)),
      model_label(Holding::weights, Origin::parameter, parameter));
}

void ModelPlacement::place_buffer(std::size_t i) {
  const BufferTensor& buffer = inventory_.buffers[tensors_.buffers[i].row];
  if (!buffer.of_adapter) place_buffer(i, buffer.dtype);
}

StorageId ModelPlacement::place_buffer(std::size_t i, DType dtype) {
  return recorder_.allocate(checked_multiply(tensors_.buffers[i].elements, size_of(dtype)),
                            model_label(Holding::buffers, Origin::buffer, i));
}

/// DoraLinearLayer.update_layer: lora_B @ lora_A, times the scaling, beside the weight, and the
/// norm of the sum's rows.
StorageId ModelPlacement::place_magnitude(std::size_t parameter, DType dtype) {
  // The matrices lie right before: A of [rank, in], B of [out, rank].
  const std::int64_t elements =
      checked_multiply(row(parameter - 2).shape.back(), row(parameter - 1).shape.front());
  const auto make = [&] {
    return recorder_.make(checked_multiply(elements, size_of(dtype)),
                          model_label(Holding::temporaries, Origin::parameter, parameter));
  };
  HeldVector layer;
  if (codes_) {
    // The layer's own weight and bias lie before the matrices.
    const std::size_t last = parameter - 3;
    const bool biased = !row(last).quantized;
    const std::int64_t bias =
        biased ? checked_multiply(tensors_.parameters[last].elements, size_of(type_of(last))) : 0;
    if (row(biased ? last - 1 : last).quantized) {
      layer = codes_->dequantize_copy(
          {elements, bias}, model_label(Holding::temporaries, Origin::parameter, parameter),
          recorder_);
    }
  }
  HeldStorage update = make();
  multiply();
  HeldStorage scaled = make();
  HeldStorage sum = make();
  scaled.drop();
  const StorageId placed = place(parameter, dtype);
  layer.drop();
  update.drop();
  sum.drop();
  return placed;
}

/// Places what peft adds to the layers, one after the other, in `dtype`; what all of them share
/// comes with the first one's own.
std::vector<ModelPlacement::Placed> ModelPlacement::place_trained(const Adapter& adapter,
                                                                  DType dtype) {
  constexpr std::size_t kVectorsOfVera = 2;
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < tensors_.parameters.size(); ++i) {
    if (!row(i).wants_gradient() || row(i).whole_module) continue;
    const bool magnitude = adapter.kind == AdapterKind::dora && row(i).shape.size() == 1;
    placed.push_back({false, i, magnitude ? place_magnitude(i, dtype) : place(i, dtype)});
    if (placed.size() != kVectorsOfVera) continue;
    for (std::size_t b = 0; b < tensors_.buffers.size(); ++b) {
      if (!inventory_.buffers[tensors_.buffers[b].row].of_adapter) continue;
      placed.push_back({true, b, place_buffer(b, dtype)});
    }
  }
  return placed;
}

/// One after the other, each of which takes the place of what it was.
std::vector<ModelPlacement::Placed> ModelPlacement::cast(const std::vector<Placed>& tensors,
                                                         DType dtype) {
  std::vector<Placed> casts;
  for (const Placed& one : tensors) {
    casts.push_back(one);
    casts.back().storage = one.buffer ? place_buffer(one.tensor, dtype) : place(one.tensor, dtype);
    recorder_.release(one.storage);
  }
  return casts;
}

/// Tensors beside the layers in the weights' type first, then copies of whole modules; then each of
/// the former is widened.
void ModelPlacement::place_adapters(const Adapter& adapter) {
  const DType trained = recipe_.trained.value_or(recipe_.weights);
  // BaseTunerLayer._move_adapter_to_device_of_base_layer takes the type of the layer's weight, of
  // Params4bit that of the weight before; HQQ's codes and Int8Params have none.
  const bool own_type = adapter.is_prompt() || (codes_ && !codes_->know_their_type());
  const DType made = own_type ? trained : loaded_type();
  std::vector<Placed> added = place_trained(adapter, made);
  for (std::size_t i = 0; i < tensors_.parameters.size(); ++i) {
    if (row(i).wants_gradient() && row(i).whole_module) place(i, made);
  }
  if (adapter.recast && made != DType::fp32) added = cast(added, DType::fp32);
  if (adapter.recast || trained != made) cast(added, trained);
}

}  // namespace memest
