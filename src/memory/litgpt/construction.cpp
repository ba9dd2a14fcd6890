#include "memory/litgpt/construction.hpp"

#include <utility>
#include <variant>

#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

LitgptConstruction::LitgptConstruction(const Parts& parts)
    : decoder_(std::get<DecoderSpec>(parts.job.model.architecture)),
      training_(*parts.job.training),
      inventory_(parts.inventory),
      tensors_(parts.tensors),
      placement_(parts.placement),
      recorder_(parts.recorder),
      sharded_(shards_by<RowShards>(parts.job)),
      adapted_(parts.job.model.adapter && !sharded_),
      quantized_(parts.job.model.quantized.has_value()) {
  if (quantized_) placement_.codes()->take_fp16();
}

const ParameterTensor& LitgptConstruction::row(std::size_t parameter) const {
  return inventory_.parameters[tensors_.parameters[parameter].row];
}

const BufferTensor& LitgptConstruction::row_of_buffer(std::size_t buffer) const {
  return inventory_.buffers[tensors_.buffers[buffer].row];
}

std::int64_t LitgptConstruction::angles_of(std::int64_t positions) const {
  return checked_multiply(positions, std::get<RotaryPosition>(decoder_.position).rotary_dim);
}

HeldStorage LitgptConstruction::make(std::int64_t elements, DType dtype) {
  return recorder_.make(checked_multiply(elements, size_of(dtype)),
                        loop_label(Holding::temporaries, LoopTensor::rotations));
}

void LitgptConstruction::write() {
  std::vector<std::size_t> layer;
  std::int64_t running = 0;
  const auto end_layer = [&] {
    make_layer(layer);
    layer.clear();
  };
  for (std::size_t i = 0; i < tensors_.parameters.size(); ++i) {
    const std::int64_t number = tensors_.parameters[i].layer;
    if (number != running) end_layer();
    running = number;
    if (number == 0) {
      placement_.place_parameter(i);
    } else {
      layer.push_back(i);
    }
  }
  end_layer();
  make_buffers();
}

void LitgptConstruction::place(const std::vector<std::size_t>& parameters,
                               std::string_view module) {
  for (const std::size_t i : parameters) {
    if (row(i).name.starts_with(module)) placement_.place_parameter(i);
  }
}

/// The base class's own, one after the other.
std::vector<HeldVector> LitgptConstruction::make_frozen(const std::vector<std::size_t>& parameters,
                                                        std::string_view module) {
  std::vector<HeldVector> made;
  for (const std::size_t i : parameters) {
    if (row(i).wants_gradient() || !row(i).name.starts_with(module)) continue;
    made.push_back(placement_.make_parameter(i));
  }
  return made;
}

/// lora.py: Block.__init__ calls its base's, and so does CausalSelfAttention's: what a base has
/// made goes when the adapted module takes its name.
void LitgptConstruction::make_layer(const std::vector<std::size_t>& parameters) {
  if (!adapted_) return place(parameters, "");
  place(parameters, "norm_1.");
  std::vector<HeldVector> attention = make_frozen(parameters, "attn.");
  place(parameters, "norm_2.");
  const std::vector<HeldVector> feed_forward = make_frozen(parameters, "mlp.");
  std::vector<HeldVector> qkv = make_frozen(parameters, "attn.qkv.");
  std::vector<HeldVector> projection = make_frozen(parameters, "attn.proj.");
  place(parameters, "attn.qkv.");
  qkv.clear();
  place(parameters, "attn.proj.");
  projection.clear();
  attention.clear();
  place(parameters, "mlp.");
}

/// build_rope_cache: angles of each position, their cosines and sines, each times the scaling.
LitgptConstruction::Tables LitgptConstruction::tables(std::int64_t positions) {
  const std::int64_t angles = angles_of(positions);
  const HeldStorage theta = make(angles_of(1) / 2, DType::fp32);
  HeldStorage numbers = make(positions, DType::int64);
  numbers = make(positions, DType::fp32);
  numbers = make(positions, DType::fp32);
  HeldStorage whole = make(angles / 2, DType::fp32);
  whole = make(angles, DType::fp32);
  Tables made;
  for (HeldStorage* const table : {&made.cosines, &made.sines}) {
    *table = make(angles, DType::fp32);
    *table = make(angles, DType::fp32);
  }
  return made;
}

/// Module.to(): one buffer after the other.
void LitgptConstruction::convert(Tables& tables, std::int64_t positions) {
  for (HeldStorage* const table : {&tables.cosines, &tables.sines}) {
    *table = make(angles_of(positions), training_.recipe.weights);
  }
}

/// The tables of all positions, in the weights' type. GPT.max_seq_length makes them anew where the
/// sequences are shorter: the last ones are what stays.
void LitgptConstruction::make_buffers() {
  const std::int64_t positions =
      decoder_.max_positions > 0 ? decoder_.max_positions : training_.seq_len;
  Tables held;
  // _materialize_distributed_module: to_empty() gives the converted ones storage, and
  // GPT.reset_parameters() makes others.
  if (sharded_) convert(held, positions);
  held = tables(positions);
  // BitsandbytesPrecision.convert_module leaves them.
  const bool converts = !sharded_ && !quantized_ && training_.recipe.weights != DType::fp32;
  if (converts) convert(held, positions);
  if (positions == training_.seq_len) {
    held = {};
  } else {
    tables(training_.seq_len);
  }
  for (std::size_t i = 0; i < tensors_.buffers.size(); ++i) {
    placement_.place_buffer(i, row_of_buffer(i).dtype);
  }
}

}  // namespace memest
