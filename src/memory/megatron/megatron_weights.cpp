#include "memory/megatron/megatron_weights.hpp"

#include <utility>

#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// The weights of a router, and of the gate of shared experts.
bool is_router(const ParameterTensor& row) { return row.module == ParameterModule::router; }

HeldStorage norm_of(std::int64_t elements, const std::optional<LaunchDevice>& device,
                    Recorder& recorder) {
  constexpr std::int64_t kBytes = size_of(DType::fp32);
  // local_multi_tensor_l2_norm, which stands in where neither Transformer Engine nor Apex is
  // installed.
  HeldStorage norm =
      recorder.make(kBytes, loop_label(Holding::temporaries, LoopTensor::norm_of_a_tensor));
  if (device) {
    recorder.launch(reduction_scratch(sum_of_all(elements, kBytes), *device),
                    loop_label(Holding::temporaries, LoopTensor::partial_norms));
  }
  return norm;
}

}  // namespace

MegatronWeights::MegatronWeights(const MegatronModel& model, const Timeline& timeline)
    : job_(model.job),
      graph_(model.graph),
      timeline_(timeline),
      recipe_(model.job.training->recipe),
      weights_(timeline.parameters.size()),
      on_meta_(timeline.parameters.size()) {}

const ParameterTensor& MegatronWeights::row(std::size_t parameter) const {
  return graph_.parameters.parameters[timeline_.parameters[parameter].row];
}

std::int64_t MegatronWeights::elements(std::size_t parameter) const {
  return timeline_.parameters[parameter].elements;
}

bool MegatronWeights::in_eight_bits(std::size_t parameter) const {
  const std::optional<TeLinears>& linears = job_.training->te_linears;
  return linears && linears->param_gather && row(parameter).te_linear;
}

/// As the module makes it (module/base.py, reset_parameters): by rows and columns; but what the
/// buffer will have of those that it takes, which are not MXFP8's, nor frozen.
std::int64_t MegatronWeights::own_bytes(std::size_t parameter) const {
  if (!in_eight_bits(parameter))
    return checked_multiply(elements(parameter), size_of(recipe_.weights));
  const TeRecipe recipe = job_.training->te_linears->recipe;
  if (recipe != TeRecipe::mxfp8 && row(parameter).trainable)
    return checked_multiply(elements(parameter), size_of(DType::fp8));
  return te_weight_bytes(elements(parameter), recipe, te_capability(job_.hardware.gpu));
}

/// torch.nn's own modules; Megatron's and Transformer Engine's make their weights on the device.
bool MegatronWeights::made_on_host(std::size_t parameter) const {
  const ParameterTensor& tensor = row(parameter);
  const bool own_norms = job_.training->implementation.layers != LayerSpec::te;
  return is_router(tensor) || (own_norms && tensor.role == ParameterRole::norm) ||
         tensor.module == ParameterModule::positions;
}

/// A router's weight is in its type before it follows.
DType MegatronWeights::type_on_host(std::size_t parameter) const {
  return is_router(row(parameter)) ? recipe_.weights : DType::fp32;
}

HeldStorage MegatronWeights::weight(std::size_t parameter, DType dtype, Recorder& recorder) const {
  return recorder.make(checked_multiply(elements(parameter), size_of(dtype)),
                       parameter_label(Holding::weights, parameter, 0));
}

/// Zeros; of a rotation 1 / base ** (arange(0, d, 2) / d), expression by expression
/// (RotaryEmbedding).
void MegatronWeights::place_buffer(std::size_t buffer, Recorder& recorder) const {
  const std::int64_t bytes =
      checked_multiply(timeline_.buffers[buffer].elements, size_of(DType::fp32));
  Label label;
  label.holding = Holding::buffers;
  label.origin = Origin::buffer;
  label.place = static_cast<std::uint32_t>(buffer);
  const auto make = [&](std::int64_t size) { return recorder.make(size, label); };
  const BufferTensor& described = graph_.parameters.buffers[timeline_.buffers[buffer].row];
  if (!described.rotary_frequencies) {
    make(bytes).give_up();
    return;
  }
  HeldStorage counted = make(bytes);
  HeldStorage exponents = make(bytes);
  counted.drop();
  const HeldStorage powers = make(bytes);
  make(size_of(DType::fp64)).drop();
  exponents.drop();
  const HeldStorage inverted = make(bytes);
  make(bytes).give_up();
}

void MegatronWeights::place(const ModelTensors& tensors, Recorder& recorder) {
  // An adapter's are made around the model that stands (PEFT.__call__), both before what follows.
  const bool adapted = job_.model.adapter.has_value();
  const auto is_adapters = [&](std::size_t i) { return adapted && row(i).trainable; };
  const auto make = [&](std::size_t i) {
    if (on_meta_[i]) return;
    weights_[i] = recorder.make(own_bytes(i), parameter_label(Holding::weights, i, 0));
  };
  for (const auto& [is_buffer, i] : tensors.order) {
    if (is_buffer) {
      place_buffer(i, recorder);
    } else if (!made_on_host(i) && !is_adapters(i)) {
      make(i);
    }
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (is_adapters(i)) make(i);
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (made_on_host(i) && !on_meta_[i]) weights_[i] = weight(i, type_on_host(i), recorder);
  }
}

void MegatronWeights::materialize(std::size_t parameter, Recorder& recorder) {
  if (!on_meta_[parameter]) return;
  weights_[parameter] =
      recorder.make(own_bytes(parameter), parameter_label(Holding::weights, parameter, 0));
}

void MegatronWeights::cast(Recorder& recorder) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!made_on_host(i) || on_meta_[i] || recipe_.weights == type_on_host(i)) continue;
    weights_[i] = weight(i, recipe_.weights, recorder);
  }
}

void MegatronWeights::make_quantized(Recorder& recorder) const {
  const std::optional<TeLinears>& linears = job_.training->te_linears;
  if (!linears) return;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!row(i).te_linear) continue;
    std::int64_t bytes =
        te_weight_bytes(elements(i), linears->recipe, te_capability(job_.hardware.gpu));
    if (linears->param_gather) bytes -= own_bytes(i);
    if (bytes > 0) recorder.allocate(bytes, parameter_label(Holding::weights, i, 0));
  }
}

bool summed_over_tensor_ranks(const ParameterTensor& tensor, const Parallelism& parallelism) {
  // _allreduce_non_tensor_model_parallel_grads: every tensor rank has a part of the sum where its
  // heads, or under sequence parallelism its tokens, are others than its neighbours'.
  const bool sums = tensor.module == ParameterModule::attention_output ||
                    tensor.module == ParameterModule::feed_forward_down;
  const bool on_shards = tensor.role == ParameterRole::norm ||
                         (tensor.role == ParameterRole::bias && sums) ||
                         tensor.module == ParameterModule::into_latents || is_router(tensor);
  return tensor.module == ParameterModule::head_norm || (parallelism.sequence && on_shards);
}

/// The norms of all tensors, theirs on the host, and its square. Gradients are scaled in place.
void take_gradient_norm(const std::vector<std::int64_t>& elements,
                        const std::optional<LaunchDevice>& device, Recorder& recorder) {
  const auto scalar = [&] {
    return recorder.make(size_of(DType::fp32), loop_label(Holding::temporaries, LoopTensor::norm));
  };
  HeldStorage overflow = scalar();
  HeldVector norms;
  for (const std::int64_t count : elements) norms.push_back(norm_of(count, device, recorder));
  const HeldStorage norm = scalar();
  norms.drop();
  scalar().drop();  // the square
  overflow.drop();
}

}  // namespace memest
