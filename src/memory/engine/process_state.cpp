#include "memory/engine/process_state.hpp"

#include <algorithm>

#include "memory/timeline/labels.hpp"

namespace memest {

/// cublasLt is called through cuBLAS's handle, whose workspace comes first
/// (aten/src/ATen/cuda/CublasHandlePool.cpp, getCurrentCUDABlasLtHandle). Transformer Engine's is
/// one for the process (transformer_engine/pytorch/cpp_extensions/gemm.py, get_workspace).
void LibraryBuffers::use(Workspace workspace, EngineThread thread) {
  if (workspace == Workspace::none) return;
  if (workspace == Workspace::transformer_engine) {
    if (std::exchange(has_transformer_engine_, true)) return;
    recorder_.allocate(sizes_.transformer_engine,
                       loop_label(Holding::workspaces, LoopTensor::transformer_engine_workspace));
    return;
  }
  const bool lt = workspace != Workspace::cublas;
  if (sizes_.cublas_life == WorkspaceLife::process) {
    use(LoopTensor::cublas_workspace, sizes_.cublas, thread);
  } else if (!lt) {
    use_once(LoopTensor::cublas_workspace, sizes_.cublas);
  }
  if (!lt || sizes_.cublas_lt_life == WorkspaceLife::shared) return;
  if (sizes_.cublas_lt_life == WorkspaceLife::call) {
    return use_once(LoopTensor::cublas_lt_workspace, sizes_.cublas_lt);
  }
  use(LoopTensor::cublas_lt_workspace, sizes_.cublas_lt, thread);
}

/// PyTorch's allocator gives and takes it around the call.
void LibraryBuffers::use_once(LoopTensor workspace, std::int64_t bytes) {
  recorder_.release(recorder_.allocate(bytes, loop_label(Holding::workspaces, workspace)));
}

void LibraryBuffers::use(LoopTensor workspace, std::int64_t bytes, EngineThread thread) {
  auto& of_thread = made_[static_cast<std::size_t>(thread)];
  bool& made = of_thread[workspace == LoopTensor::cublas_lt_workspace ? 1 : 0];
  if (std::exchange(made, true)) return;
  recorder_.allocate(bytes, loop_label(Holding::workspaces, workspace));
}

/// torch.empty where it is too small; the old one goes when the new one has its name
/// (megatron/core/utils.py, GlobalMemoryBuffer.get_tensor).
void LibraryBuffers::grow(std::int64_t bytes) {
  if (bytes <= growing_bytes_) return;
  growing_bytes_ = bytes;
  growing_ = recorder_.make(bytes, loop_label(Holding::workspaces, LoopTensor::growing_buffer));
}

void LibraryBuffers::make_unread(const UnreadGradient& gradient) {
  if (std::find(unread_.begin(), unread_.end(), gradient.shape) != unread_.end()) return;
  unread_.push_back(gradient.shape);
  recorder_.allocate(gradient.bytes, loop_label(Holding::gradients, LoopTensor::unread_gradient));
}

ModuleAttributes::ModuleAttributes(const ForwardOrder& order, const Checkpoints& checkpoints,
                                   Recorder& recorder)
    : order_(order), recorder_(recorder) {
  const auto& list = checkpoints.list;
  for (std::size_t i = 0; i < list.size(); ++i) {
    add_graph_input(checkpoints, {list[i].begin, list[i].end}, i);
  }
  for (const StageSites& stage : order.stages()) {
    add_graph_input(checkpoints, {stage.begin, stage.end}, std::nullopt);
  }
}

/// An old graph goes with the last attribute that has it: of a stage the last outside of
/// checkpoints, whose own attributes have graphs of their own.
void ModuleAttributes::add_graph_input(const Checkpoints& checkpoints, Slice sites,
                                       std::optional<std::size_t> checkpoint) {
  const auto& list = checkpoints.list;
  for (std::uint32_t i = sites.end; i > sites.begin; --i) {
    const OpSite& site = order_.sites()[i - 1];
    if (!order_.op(site).names_graph) continue;
    const bool recomputed = std::any_of(list.begin(), list.end(), [i](const Checkpoint& one) {
      return one.begin < i && i <= one.end;
    });
    if (recomputed == checkpoint.has_value()) {
      graph_inputs_.push_back({site, checkpoint, nullptr, {}});
    }
    return;
  }
}

/// The old storages go when the new ones have their names.
void ModuleAttributes::name(const OpSite& site, Slice attributes, const FlightState& state,
                            const std::shared_ptr<void>& owner) {
  const BlockProgram& program = order_.program(site);
  const OpProgram& op = order_.op(site);
  for (std::uint32_t i = attributes.begin; i < attributes.end; ++i) {
    const Cell cell = order_.storage_cell(site.instance, program.tensors[i]);
    const auto known = std::find_if(named_.begin(), named_.end(),
                                    [cell](const auto& named) { return named.first == cell; });
    HeldStorage storage = recorder_.adopt(state.storages[cell]);
    if (known == named_.end()) {
      named_.emplace_back(cell, std::move(storage));
    } else {
      known->second = std::move(storage);
    }
    const bool has_graph = i == op.attributes.begin && op.names_graph;
    if (has_graph) begin_graph(site, owner);
  }
  // A forward under no_grad names what has no graph, and its predecessor's graph goes.
  for (std::uint32_t i = attributes.end; i < op.attributes.end; ++i) {
    const Cell cell = order_.storage_cell(site.instance, program.tensors[i]);
    std::erase_if(named_, [cell](const auto& named) { return named.first == cell; });
  }
}

void ModuleAttributes::begin_graph(const OpSite& site, const std::shared_ptr<void>& owner) {
  for (GraphInput& input : graph_inputs_) {
    if (input.last != site) continue;
    if (!input.checkpoint) input.owner = owner;
    input.leaves.drop();
  }
}

void ModuleAttributes::keep_leaves(std::size_t checkpoint, StorageId gradient, StorageId input) {
  for (GraphInput& begun : graph_inputs_) {
    if (begun.checkpoint != checkpoint) continue;
    HeldVector leaves;
    leaves.push_back(recorder_.share(gradient));
    leaves.push_back(recorder_.share(input));
    begun.leaves = std::move(leaves);
  }
}

}  // namespace memest
