#include <array>
#include <string>
#include <string_view>

#include "memest/diag/expect.hpp"
#include "memest/memory/timeline.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

struct NamedLoopTensor {
  LoopTensor tensor;
  std::string_view name;
};
constexpr auto kLoopTensors = std::to_array<NamedLoopTensor>({
    {LoopTensor::batch, "batch"},
    {LoopTensor::answer_copy, "copy of what the model answers"},
    {LoopTensor::batch_copy, "second copy of the batch"},
    {LoopTensor::labels, "labels"},
    {LoopTensor::images, "images"},
    {LoopTensor::targets, "number of targets"},
    {LoopTensor::scaled_loss, "scaled loss"},
    {LoopTensor::reported_loss, "reported loss"},
    {LoopTensor::loss_gradient, "gradient of the loss"},
    {LoopTensor::widened_logits, "logits of the outputs in fp32"},
    {LoopTensor::partial_norms, "partial sums of the gradient norms"},
    {LoopTensor::norm_of_a_tensor, "gradient norm of a tensor"},
    {LoopTensor::stacked_norms, "stacked gradient norms"},
    {LoopTensor::norm, "gradient norm"},
    {LoopTensor::clip_coefficient, "clipping coefficient"},
    {LoopTensor::relaid_gradient, "gradient in the form of its parameter"},
    {LoopTensor::scaler_state, "gradient scaler"},
    {LoopTensor::gradient_in_master_type, "gradient in the master copy's type"},
    {LoopTensor::step_temporary, "temporary of the optimizer step"},
    {LoopTensor::shapes, "shapes that the ranks compare"},
    {LoopTensor::barrier, "barrier of the ranks"},
    {LoopTensor::broadcast, "copy that is sent to the other ranks"},
    {LoopTensor::gradient_bucket, "gradient bucket"},
    {LoopTensor::transfer_buffer, "buffer for gradients from the host"},
    {LoopTensor::position_ids, "position ids"},
    {LoopTensor::rotations, "table of rotations"},
    {LoopTensor::loss_mask, "mask of the losses"},
    {LoopTensor::documents, "documents"},
    {LoopTensor::attention_mask, "attention mask"},
    {LoopTensor::token_count, "number of tokens"},
    {LoopTensor::loss, "loss"},
    {LoopTensor::loss_scale, "scale of the loss"},
    {LoopTensor::parameter_buffer, "buffer of the weights"},
    {LoopTensor::gradient_buffer, "buffer of the gradients"},
    {LoopTensor::parameter_shard, "shard of a weight"},
    {LoopTensor::received, "tensor from another stage"},
    {LoopTensor::growing_buffer, "global memory buffer"},
    {LoopTensor::cublas_workspace, "cuBLAS workspace"},
    {LoopTensor::cublas_lt_workspace, "cublasLt workspace"},
    {LoopTensor::transformer_engine_workspace, "workspace of Transformer Engine's products"},
    {LoopTensor::special_tokens, "special tokens"},
    {LoopTensor::input_ids, "token ids of the pass"},
    {LoopTensor::sequences, "sequences"},
    {LoopTensor::next_logits, "logits of the last tokens in fp32"},
    {LoopTensor::scores, "scores of the next tokens"},
    {LoopTensor::beams, "choice of beams"},
    {LoopTensor::beam_scores, "scores of the beams"},
    {LoopTensor::stopping, "which sequences are done"},
    {LoopTensor::reordered_cache, "cache of the chosen beams"},
    {LoopTensor::unread_gradient, "unread gradient of a weight's shape"},
    {LoopTensor::teacher, "weights of the teacher or reference"},
    {LoopTensor::average, "moving average of the weights"},
    {LoopTensor::generator_state, "state of a random generator"},
});

std::string with_layer(const std::string& name, const TensorPlace& place, std::int64_t count) {
  if (count == 1) return name;
  return name + " " + std::to_string(place.copy + 1) + " of " + std::to_string(count);
}

/// "layer 3 of 32, q_proj, out". Kernels' scratch is their operation's: no tensor has its size.
std::string graph_name(const Timeline& timeline, const Graph& graph, const Label& label) {
  const Block& block = graph.blocks[timeline.places[label.place].block];
  if (label.tensor == kKernelScratch) {
    return place_name(timeline, graph, label.place) + ", " + std::string(block.ops[label.op].name) +
           ", scratch";
  }
  const Tensor& tensor = block.tensors[label.tensor];
  return place_name(timeline, graph, label.place) + ", " + std::string(tensor.op) + ", " +
         std::string(tensor.name);
}

std::string parameter_name(const Timeline& timeline, const Graph& graph, const Label& label) {
  const TensorPlace& place = timeline.parameters[label.place];
  const ParameterTensor& row = graph.parameters.parameters[place.row];
  const std::string name = with_layer(row.name, place, row.count);
  if (label.tensor == 0) return name;
  if (label.tensor == kMasterCopy) return "master copy of " + name;
  return "optimizer state of " + name;
}

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::model:
      return "model";
    case Phase::ddp_buffers:
      return "ddp_buffers";
    case Phase::main_params:
      return "optimizer_main_params";
    case Phase::batch:
      return "batch";
    case Phase::forward:
      return "forward";
    case Phase::decode:
      return "decode";
    case Phase::backward:
      return "backward";
    case Phase::clip:
      return "clip";
    case Phase::optimizer:
      return "optimizer";
    case Phase::zero_grad:
      return "zero_grad";
  }
  unreachable("every phase has a name");
}

std::string_view name_of(Holding holding) {
  switch (holding) {
    case Holding::weights:
      return "weights";
    case Holding::buffers:
      return "buffers";
    case Holding::gradients:
      return "gradients";
    case Holding::optimizer_states:
      return "optimizer states";
    case Holding::batch:
      return "batch";
    case Holding::activations:
      return "activations";
    case Holding::cast_weights:
      return "cast weights";
    case Holding::passing_gradients:
      return "gradients of activations";
    case Holding::temporaries:
      return "temporaries";
    case Holding::gathered_weights:
      return "gathered weights";
    case Holding::collective_buffers:
      return "buffers of collectives";
    case Holding::workspaces:
      return "library workspaces";
  }
  unreachable("every holding has a name");
}

std::string_view name_of(LoopTensor tensor) {
  for (const NamedLoopTensor& row : kLoopTensors) {
    if (row.tensor == tensor) return row.name;
  }
  unreachable("every tensor of the loop has a name");
}

std::string_view name_of(UnitTensor tensor) {
  switch (tensor) {
    case UnitTensor::cast_shares:
      return "all_gather input";
    case UnitTensor::all_gather_output:
      return "all_gather output";
    case UnitTensor::weight:
      return "gathered weight";
    case UnitTensor::reduce_scatter_input:
      return "reduce_scatter input";
    case UnitTensor::gradients:
      return "gradients";
    case UnitTensor::gradient_sum:
      return "sum of the micro-batches' gradients";
    case UnitTensor::relaid_gradient:
      return "gradient relaid";
    case UnitTensor::pointers:
      return "pointers to pieces";
    case UnitTensor::flat_weights:
      return "flat weights";
    case UnitTensor::shard:
      return "shard";
    case UnitTensor::flat_gradient:
      return "flat gradient";
  }
  unreachable("every tensor of a unit has a name");
}

Holding holding_of(UnitTensor tensor) {
  switch (tensor) {
    case UnitTensor::cast_shares:
    case UnitTensor::all_gather_output:
    case UnitTensor::relaid_gradient:
    case UnitTensor::reduce_scatter_input:
      return Holding::collective_buffers;
    case UnitTensor::weight:
    case UnitTensor::flat_weights:
      return Holding::gathered_weights;
    case UnitTensor::shard:
      return Holding::weights;
    case UnitTensor::flat_gradient:
    case UnitTensor::gradients:
    case UnitTensor::gradient_sum:
      return Holding::gradients;
    case UnitTensor::pointers:
      return Holding::temporaries;
  }
  unreachable("every tensor of a unit is held as something");
}

std::string place_name(const Timeline& timeline, const Graph& graph, std::uint32_t place) {
  const BlockPlace& at = timeline.places[place];
  if (at.layer == 0) return graph.blocks[at.block].name;
  return "layer " + std::to_string(at.layer) + " of " + std::to_string(timeline.layers);
}

std::string storage_name(const Timeline& timeline, const Graph& graph, StorageId storage) {
  const Label& label = timeline.storages[storage].label;
  switch (label.origin) {
    case Origin::forward:
      return graph_name(timeline, graph, label);
    case Origin::recompute:
      return graph_name(timeline, graph, label) + " (recomputed)";
    case Origin::unpacked:
      return graph_name(timeline, graph, label) + " (back from the host)";
    case Origin::backward:
      if (label.tensor == kKernelScratch) {
        return graph_name(timeline, graph, label) + " of the backward";
      }
      return "gradient of " + graph_name(timeline, graph, label);
    case Origin::parameter:
      return parameter_name(timeline, graph, label);
    case Origin::buffer: {
      const TensorPlace& place = timeline.buffers[label.place];
      const BufferTensor& row = graph.parameters.buffers[place.row];
      return with_layer(row.name, place, row.count);
    }
    case Origin::unit: {
      const std::string tensor(name_of(static_cast<UnitTensor>(label.tensor)));
      const auto of = static_cast<UnitOf>(label.op);
      if (of == UnitOf::root) return tensor + " of the root unit";
      const std::string module = of == UnitOf::experts ? "experts of " : "";
      return tensor + " of " + module + place_name(timeline, graph, label.place);
    }
    case Origin::loop:
      return std::string(name_of(static_cast<LoopTensor>(label.tensor)));
  }
  unreachable("every origin has a name");
}

}  // namespace memest
