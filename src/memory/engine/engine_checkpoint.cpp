// torch.utils.checkpoint, PyTorch 2.11: use_reentrant=False (saved-tensor hooks) and True (an
// autograd function with a backward of its own).
#include <algorithm>
#include <utility>

#include "memory/engine/engine.hpp"

namespace memest {

void Engine::hold_inputs(const Checkpoint& checkpoint) {
  for (const Cell cell : checkpoint.inputs) {
    recorder_.retain(now_.storages[cell]);
    // A reentrant checkpoint saves the tensors that it is called with; those bound to its function
    // stay with the node.
    const bool bound = checkpoints_.reentrant && !checkpoints_.saves_arguments &&
                       cell != checkpoint.inputs.front();
    (bound ? now_.kept_with_loss : now_.inputs).push_back(now_.storages[cell]);
  }
}

void Engine::drop_inputs(std::size_t checkpoint) {
  const Slice slice = now_.inputs_of[checkpoint];
  for (std::uint32_t i = slice.begin; i < slice.end; ++i) recorder_.release(now_.inputs[i]);
}

/// The last node that kept something of a checkpoint lets its inputs go, before the engine hands
/// its gradients on.
void Engine::end_checkpoint() {
  if (!ending_) return;
  drop_inputs(*ending_);
  ending_.reset();
}

/// The first node that unpacks a saved tensor recomputes the forward. Tensors saved then are
/// released node by node; the inputs go with the last node that kept something.
void Engine::backward_of(std::size_t index) {
  const Checkpoint& checkpoint = checkpoints_.list[index];
  bool done = false;
  for (std::uint32_t i = checkpoint.end; i > checkpoint.begin; --i) {
    const OpSite& site = order_.sites()[i - 1];
    hook_before_backward(site);
    if (!done && order_.op(site).keeps) {
      recompute(checkpoint);
      done = unpacks_ = true;
    }
    if (i - 1 == checkpoint.first_kept) ending_ = index;
    run_backward(site);
    end_checkpoint();
    hook_after_backward(site);
  }
  unpacks_ = false;
  if (!done) drop_inputs(index);
}

/// Keeps the op's tensors that a selective checkpoint stores beside its inputs.
void Engine::keep_selectively(const OpSite& site, const OpProgram& op) {
  if (!checkpoints_.keeps_selectively) return;
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.made.begin; i < op.made.end; ++i) {
    const Cell cell = order_.cell(site.instance, program.made[i].tensor);
    now_.selected[cell] = now_.storages[cell];
    recorder_.retain(now_.selected[cell]);
  }
}

/// An op whose outputs a selective checkpoint has kept is not recomputed: they are handed out.
void Engine::make_or_take_outputs(const OpSite& site, const OpProgram& op, Mode mode) {
  const bool again = origin_ == Origin::recompute && checkpoints_.keeps_selectively;
  if (!again || !op.kept_selectively) return make_outputs(site, op, mode);
  const BlockProgram& program = order_.program(site);
  for (std::uint32_t i = op.made.begin; i < op.made.end; ++i) {
    const Cell cell = order_.cell(site.instance, program.made[i].tensor);
    now_.storages[cell] = std::exchange(now_.selected[cell], kNoStorage);
    now_.held[cell] = 1;
  }
}

/// Up to where the last tensor is saved: what an op reads is saved before it runs, what it makes
/// after.
void Engine::recompute(const Checkpoint& checkpoint) {
  origin_ = Origin::recompute;
  if (!checkpoints_.stops_early) return recompute_whole(checkpoint);
  for (std::uint32_t i = checkpoint.begin; i < checkpoint.last_kept; ++i) {
    run_forward(order_.sites()[i], true);
  }
  const OpSite& last = order_.sites()[checkpoint.last_kept];
  const OpProgram& op = order_.op(last);
  if (op.keeps_result) make_or_take_outputs(last, op, Mode::gradients);
  save(last, op);
  end_references_of(checkpoint, checkpoint.last_kept + 1);
  end_autocast();
}

void Engine::recompute_whole(const Checkpoint& checkpoint) {
  for (std::uint32_t i = checkpoint.begin; i < checkpoint.end; ++i) {
    run_forward(order_.sites()[i], true);
  }
  end_references_of(checkpoint, checkpoint.end);
  end_autocast();
}

/// The functions that ran again return, or are left by the early stop: their locals go.
void Engine::end_references_of(const Checkpoint& checkpoint, std::uint32_t end) {
  for (std::uint32_t i = checkpoint.begin; i < end; ++i) {
    const OpSite& site = order_.sites()[i];
    const BlockProgram& program = order_.program(site);
    const OpProgram& op = order_.op(site);
    for (std::uint32_t k = op.made.begin; k < op.made.end; ++k) {
      const Cell cell = order_.storage_cell(site.instance, program.made[k].tensor);
      for (; now_.held[cell] > 0; --now_.held[cell]) recorder_.release(now_.storages[cell]);
    }
  }
}

/// The function's backward runs the whole forward again, holds its inputs, its outputs and the
/// incoming gradient, and runs a backward of its own through it.
void Engine::backward_of_reentrant(std::size_t index) {
  const Checkpoint& checkpoint = checkpoints_.list[index];
  const OpSite& last = order_.sites()[checkpoint.end - 1];
  const TensorId answer = order_.program(last).tensors[order_.op(last).outputs.end - 1];
  const StorageId incoming = now_.slots[order_.cell(last.instance, answer)].storage;
  recorder_.retain(incoming);
  gather_input(index);
  origin_ = Origin::recompute;
  for (std::uint32_t i = checkpoint.begin; i < checkpoint.end; ++i) {
    run_forward(order_.sites()[i], true);
  }
  end_autocast();
  if (checkpoints_.saves_arguments) detached_ = &checkpoint;
  for (std::uint32_t i = checkpoint.end; i > checkpoint.begin; --i) {
    run_backward(order_.sites()[i - 1]);
  }
  detached_ = nullptr;
  end_references_of(checkpoint, checkpoint.end);
  recorder_.release(incoming);
  keep_graph_leaves(index);
  drop_inputs(index);
}

bool Engine::is_leaf_of_checkpoint(Cell cell) const {
  if (detached_ == nullptr) return false;
  const std::vector<Cell>& inputs = detached_->inputs;
  return std::find(inputs.begin(), inputs.end(), cell) != inputs.end();
}

/// AccumulateGrad copies what does not lie as the leaf does; of a node's gradients the last first.
void Engine::copy_leaves() {
  for (; !copied_leaves_.empty(); copied_leaves_.pop_back()) {
    const CopiedLeaf& leaf = copied_leaves_.back();
    GradientSlot& slot = now_.slots[leaf.cell];
    const StorageId copy = recorder_.allocate(leaf.bytes, leaf.label);
    recorder_.release(std::exchange(slot.storage, copy));
    slot.reach = Reach::directly;
  }
}

StorageId Engine::make_input(const Checkpoint& checkpoint, std::int64_t bytes) {
  const OpSite& site = order_.sites()[checkpoint.begin];
  Label label;
  label.origin = origin_;
  label.place = site.instance;
  label.op = static_cast<std::uint16_t>(site.op);
  return recorder_.allocate(bytes, label);
}

/// distribute_saved_activations: the first argument's data becomes a copy of this rank's share.
void Engine::cut_input(std::size_t index) {
  const Checkpoint& checkpoint = checkpoints_.list[index];
  if (checkpoints_.shares == 1 || checkpoint.input_bytes == 0) return;
  StorageId& input = now_.inputs[now_.inputs_of[index].begin];
  const StorageId share = make_input(checkpoint, checkpoint.input_bytes / checkpoints_.shares);
  // Whoever else holds the tensor holds the new data from here on.
  recorder_.release(std::exchange(input, share));
}

void Engine::gather_input(std::size_t index) {
  const Checkpoint& checkpoint = checkpoints_.list[index];
  if (checkpoints_.shares == 1 || checkpoint.input_bytes == 0) return;
  StorageId& input = now_.inputs[now_.inputs_of[index].begin];
  recorder_.release(std::exchange(input, make_input(checkpoint, checkpoint.input_bytes)));
  now_.storages[checkpoint.inputs.front()] = input;
}

}  // namespace memest
