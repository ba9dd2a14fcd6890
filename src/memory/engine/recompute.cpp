// Checkpoints in both passes: torch.utils.checkpoint, PyTorch 2.11, with use_reentrant=False
// (saved-tensor hooks: it recomputes when the first saved tensor is unpacked) and True (an autograd
// function with a backward of its own), and Megatron's tensor_parallel.checkpoint and
// CheckpointWithoutOutput (megatron/core/tensor_parallel/random.py, 0.16.1).
#include <algorithm>
#include <ranges>
#include <utility>

#include "memory/engine/backward_pass.hpp"
#include "memory/engine/forward_pass.hpp"

namespace memest {
namespace {

/// How the op at `site` makes the storage of `cell`.
const MadeStorage& maker_of(const ForwardOrder& order, const OpSite& site, Cell cell) {
  const BlockProgram& program = order.program(site);
  const OpProgram& op = order.op(site);
  std::uint32_t at = op.made.begin;
  while (order.cell(site.instance, program.made[at].tensor) != cell) ++at;
  return program.made[at];
}

}  // namespace

void ForwardPass::hold_inputs(std::size_t index) {
  const Checkpoints& checkpoints = engine_.checkpoints;
  const Checkpoint& checkpoint = checkpoints.list[index];
  const auto first = static_cast<std::uint32_t>(now_.inputs.size());
  for (const Cell cell : checkpoint.inputs) {
    if (saves_on_host() && cell == checkpoint.inputs.front()) {
      // _NoopSaveInputs and CheckpointFunction save the tensors that they are called with.
      now_.inputs.push_back(kNoStorage);
      continue;
    }
    recorder_.retain(now_.storages[cell]);
    // A reentrant checkpoint saves the tensors that it is called with; those bound to its function
    // stay with the node.
    const bool bound = checkpoints.plan.holds_answer && !checkpoints.plan.saves_arguments &&
                       cell != checkpoint.inputs.front();
    (bound ? now_.kept_with_loss : now_.inputs).push_back(now_.storages[cell]);
  }
  now_.inputs_of[index] = {first, static_cast<std::uint32_t>(now_.inputs.size())};
}

/// Keeps the op's tensors that a selective checkpoint stores beside its inputs
/// (torch/utils/checkpoint.py, _CachingTorchDispatchMode).
void ForwardPass::keep_selectively(const Run& run) {
  for (std::uint32_t i = run.op.made.begin; i < run.op.made.end; ++i) keep(run, i);
}

/// _CachingTorchDispatchMode stores what the policy names; _CachedTorchDispatchMode takes it out
/// again.
void ForwardPass::keep(const Run& run, std::uint32_t made) {
  const Cell cell = order_.cell(run.site.instance, run.program.made[made].tensor);
  now_.selected[cell] = now_.storages[cell];
  recorder_.retain(now_.selected[cell]);
}

bool ForwardPass::takes_kept() const {
  return settings_.origin == Origin::recompute && engine_.checkpoints.plan.selects;
}

void ForwardPass::take_kept(const Run& run, std::uint32_t made) {
  const Cell cell = order_.cell(run.site.instance, run.program.made[made].tensor);
  now_.storages[cell] = std::exchange(now_.selected[cell], kNoStorage);
}

/// An op whose outputs a selective checkpoint has kept is not recomputed, nor are the steps of one
/// that runs some calls: they are handed out (torch/utils/checkpoint.py, _CachedTorchDispatchMode).
void ForwardPass::make_or_take_outputs(const Run& run) {
  const bool takes = takes_kept() && run.op.kept_selectively;
  const bool has_course = run.op.course.begin != run.op.course.end;
  if (!takes || has_course) make_outputs(run);
  if (!takes) return;
  for (std::uint32_t i = run.op.made.begin; i < run.op.made.end; ++i) {
    take_kept(run, i);
    now_.held[order_.cell(run.site.instance, run.program.made[i].tensor)] = 1;
  }
}

/// Stops behind the last tensor that is saved (torch/utils/checkpoint.py,
/// _StopRecomputationError): what an op reads is saved before it runs, what it makes after. In
/// y = w2 · act(w1 · x) the last product saves what act answers, and is not run.
void ForwardPass::recompute(const Checkpoint& checkpoint) {
  // Where it stops early, _recomputation_hook raises _StopRecomputationError with the last tensor
  // that the forward had saved.
  if (!engine_.checkpoints.plan.stops_early) {
    recompute_whole(checkpoint);
    end_references_of(checkpoint, checkpoint.end);
    return engine_.autocast.clear();
  }
  for (std::uint32_t i = checkpoint.begin; i < checkpoint.last_kept; ++i) {
    run_again(order_.sites()[i]);
  }
  BlockHooks* const modules = engine_.settings.hooks;
  if (modules != nullptr) modules->before_op(order_.sites()[checkpoint.last_kept]);
  Run last = run_of(order_.sites()[checkpoint.last_kept], GradientMode::gradients);
  last.keeps_graph = true;
  if (last.op.keeps_result) make_or_take_outputs(last);
  save(last);
  end_references_of(checkpoint, checkpoint.last_kept + 1);
  engine_.autocast.clear();
}

void ForwardPass::recompute_whole(const Checkpoint& checkpoint) {
  for (std::uint32_t i = checkpoint.begin; i < checkpoint.end; ++i) run_again(order_.sites()[i]);
}

void ForwardPass::run_again(const OpSite& site) {
  BlockHooks* const modules = engine_.settings.hooks;
  if (modules != nullptr) modules->before_op(site);
  run(site, true);
  if (modules != nullptr) modules->after_op(site);
}

void ForwardPass::end_references_of(const Checkpoint& checkpoint, std::uint32_t end) {
  for (std::uint32_t i = checkpoint.begin; i < end; ++i) {
    const OpSite& site = order_.sites()[i];
    const BlockProgram& program = order_.program(site);
    const OpProgram& op = order_.op(site);
    if (op.once) continue;  // a module keeps what the first forward made
    for (std::uint32_t k = op.made.begin; k < op.made.end; ++k) {
      const Cell cell = order_.storage_cell(site.instance, program.made[k].tensor);
      for (; now_.held[cell] > 0; --now_.held[cell]) recorder_.release(now_.storages[cell]);
    }
  }
  for (const StorageId named : std::exchange(now_.named_again, {})) recorder_.release(named);
}

StorageId ForwardPass::make_input(const Checkpoint& checkpoint, std::int64_t bytes, Origin origin) {
  const OpSite& site = order_.sites()[checkpoint.begin];
  Label label;
  label.origin = origin;
  label.place = site.instance;
  label.op = static_cast<std::uint16_t>(site.op);
  return recorder_.allocate(bytes, label);
}

/// distribute_saved_activations: the first argument's data becomes a copy of this rank's share
/// (safely_set_viewless_tensor_data). Whoever else holds the tensor holds the new data.
void ForwardPass::cut_input(std::size_t index) {
  const Checkpoint& checkpoint = engine_.checkpoints.list[index];
  const std::int64_t shares = engine_.checkpoints.shares;
  if (shares == 1 || checkpoint.input_bytes == 0) return;
  StorageId& input = now_.inputs[now_.inputs_of[index].begin];
  recorder_.release(std::exchange(
      input, make_input(checkpoint, checkpoint.input_bytes / shares, settings_.origin)));
}

void ForwardPass::gather_input(std::size_t index) {
  const Checkpoint& checkpoint = engine_.checkpoints.list[index];
  if (engine_.checkpoints.shares == 1 || checkpoint.input_bytes == 0) return;
  StorageId& input = now_.inputs[now_.inputs_of[index].begin];
  recorder_.release(
      std::exchange(input, make_input(checkpoint, checkpoint.input_bytes, settings_.origin)));
  now_.storages[checkpoint.inputs.front()] = input;
}

/// A selective checkpoint's frame, whose recompute_fn holds what was kept for operations behind the
/// early stop, goes with its last node.
void BackwardPass::drop_selected(const Checkpoint& checkpoint) {
  if (!engine_.checkpoints.plan.selects) return;
  for (std::uint32_t i = checkpoint.begin; i < checkpoint.end; ++i) {
    const OpSite& site = order_.sites()[i];
    const BlockProgram& program = order_.program(site);
    const OpProgram& op = order_.op(site);
    for (std::uint32_t k = op.kept.begin; k < op.kept.end; ++k) {
      const Cell cell = order_.cell(site.instance, program.tensors[k]);
      const StorageId kept = std::exchange(now_.selected[cell], kNoStorage);
      if (kept != kNoStorage) recorder_.release(kept);
    }
  }
}

/// The hooks around the forward have the argument that the checkpoint saved on the host.
void ForwardPass::unpack_input(std::size_t index) {
  if (!engine_.settings.save_on_cpu) return;
  const Checkpoint& checkpoint = engine_.checkpoints.list[index];
  StorageId& input = now_.inputs[now_.inputs_of[index].begin];
  input = make_input(checkpoint, checkpoint.input_bytes, Origin::unpacked);
  now_.storages[checkpoint.inputs.front()] = input;
}

StorageId& BackwardPass::input_of(std::size_t checkpoint) {
  return now_.inputs[now_.inputs_of[checkpoint].begin];
}

void BackwardPass::drop_inputs(std::size_t checkpoint) {
  drop_selected(engine_.checkpoints.list[checkpoint]);
  const Slice slice = now_.inputs_of[checkpoint];
  for (std::uint32_t i = slice.begin; i < slice.end; ++i) recorder_.release(now_.inputs[i]);
}

/// The last node that kept something of a checkpoint lets its inputs go, before the engine hands
/// its gradients on.
void BackwardPass::end_checkpoint(Node& node) {
  if (!node.ends) return;
  drop_inputs(*node.ends);
  node.ends.reset();
}

/// torch/utils/checkpoint.py, _checkpoint_hook.unpack_hook: the first node that unpacks a saved
/// tensor recomputes the forward. Tensors saved then are released node by node; the inputs go with
/// the last node that kept something.
void BackwardPass::run_checkpoint(Node& node, std::size_t index) {
  const Checkpoint& checkpoint = engine_.checkpoints.list[index];
  for (std::uint32_t i = checkpoint.end; i > checkpoint.begin; --i) {
    const OpSite& site = order_.sites()[i - 1];
    hook_before(site);
    if (!node.recomputed && order_.op(site).keeps) {
      ForwardPass forward(engine_, recompute_settings());
      forward.unpack_input(index);
      forward.recompute(checkpoint);
      // unpack_hook's `args` end with it.
      if (node.unpacks) recorder_.release(std::exchange(input_of(index), kNoStorage));
      node.recomputed = true;
    }
    if (i - 1 == checkpoint.first_kept) node.ends = index;
    run_node(node, site);
    end_checkpoint(node);
    hook_after(site);
  }
  if (!std::exchange(node.recomputed, false)) drop_inputs(index);
}

/// CheckpointFunction.backward (torch/utils/checkpoint.py; Megatron's in
/// megatron/core/tensor_parallel/random.py): runs the whole forward again, holds its inputs, its
/// outputs and the incoming gradient, and runs a backward of its own through it.
void BackwardPass::run_reentrant(Node& node, std::size_t index) {
  const Checkpoint& checkpoint = engine_.checkpoints.list[index];
  const OpSite& last = order_.sites()[checkpoint.end - 1];
  const TensorId answer = order_.program(last).tensors[order_.op(last).outputs.end - 1];
  const StorageId incoming = now_.slots[order_.cell(last.instance, answer)].storage;
  recorder_.retain(incoming);
  ForwardPass forward(engine_, recompute_settings());
  forward.gather_input(index);
  forward.unpack_input(index);
  const bool unpacks = std::exchange(node.unpacks, false);
  forward.recompute_whole(checkpoint);
  engine_.autocast.clear();
  if (engine_.checkpoints.plan.saves_arguments) node.detached = &checkpoint;
  BlockHooks* const hooks = engine_.settings.hooks;
  for (std::uint32_t i = checkpoint.end; i > checkpoint.begin; --i) {
    const OpSite& site = order_.sites()[i - 1];
    if (hooks != nullptr) hooks->before_node(site);
    run_node(node, site);
    if (hooks != nullptr) hooks->after_node(site);
  }
  node.detached = nullptr;
  node.unpacks = unpacks;
  forward.end_references_of(checkpoint, checkpoint.end);
  recorder_.release(incoming);
  engine_.attributes.keep_leaves(index, now_.slots[checkpoint.inputs.front()].storage,
                                 now_.inputs[now_.inputs_of[index].begin]);
  drop_inputs(index);
}

bool BackwardPass::is_leaf(const Node& node, Cell cell) {
  if (node.detached == nullptr) return false;
  const std::vector<Cell>& inputs = node.detached->inputs;
  return std::find(inputs.begin(), inputs.end(), cell) != inputs.end();
}

/// AccumulateGrad copies what does not lie as the leaf does (torch/csrc/autograd/functions/
/// accumulate_grad.h, clone_obey_contract), and adopts a detached argument's that does; of a node's
/// gradients the last first.
void BackwardPass::copy_leaves(Node& node) {
  for (; !node.copied_leaves.empty(); node.copied_leaves.pop_back()) {
    const CopiedLeaf& leaf = node.copied_leaves.back();
    GradientSlot& slot = now_.slots[leaf.cell];
    const StorageId copy = recorder_.allocate(leaf.bytes, leaf.label);
    recorder_.release(std::exchange(slot.storage, copy));
    slot.reach = Reach::directly;
  }
}

/// CheckpointWithoutOutputFunction.forward: ctx.save_for_backward of what it is called with.
void ForwardPass::hold_inputs_of_part(std::size_t part) {
  RemadeState& state = now_.remade[part];
  state = {};
  for (const Cell cell : engine_.checkpoints.remade[part].inputs) {
    recorder_.retain(now_.storages[cell]);
    state.inputs.push_back(now_.storages[cell]);
  }
}

/// discard_output_and_register_recompute: output.untyped_storage().resize_(0), whoever names or has
/// saved the tensor.
void ForwardPass::throw_away(std::size_t part) {
  RemadeState& state = now_.remade[part];
  for (const RemadeResult::Result& result : engine_.checkpoints.remade[part].results) {
    ThrownResult gone{.thrown = std::exchange(now_.storages[result.storage], kNoStorage)};
    const std::uint32_t references = recorder_.references(gone.thrown);
    gone.readers = references - std::min<std::uint32_t>(references, now_.held[result.storage]);
    for (std::uint32_t i = 0; i < references; ++i) recorder_.release(gone.thrown);
    state.results.push_back(gone);
  }
}

/// _recompute: the function runs again, with gradients; each answer is copied into a storage of the
/// same size for those who have saved the tensor, and held for the part's own backward.
void ForwardPass::make_again(std::size_t part) {
  const RemadeResult& what = engine_.checkpoints.remade[part];
  for (std::uint32_t i = what.begin; i < what.end; ++i) run(order_.sites()[i], true);
  for (std::size_t k = 0; k < what.results.size(); ++k) {
    const RemadeResult::Result& result = what.results[k];
    ThrownResult& gone = now_.remade[part].results[k];
    gone.again = now_.storages[result.storage];
    now_.held[result.storage] = 0;
    const OpSite& site = order_.sites()[result.site];
    const MadeStorage& made = maker_of(order_, site, result.storage);
    const StorageId restored = recorder_.allocate(made.bytes, label_of(site, made));
    for (std::uint32_t i = 0; i < gone.readers; ++i) recorder_.retain(restored);
    recorder_.release(restored);
    now_.storages[result.storage] = restored;
    std::ranges::replace(now_.inputs, gone.thrown, restored);
    // The checkpoint of a part between what made the result and its last reader has saved it.
    const std::vector<RemadeResult>& parts = engine_.checkpoints.remade;
    for (std::size_t i = part + 1; i < parts.size() && parts[i].begin < what.behind; ++i) {
      std::ranges::replace(now_.remade[i].inputs, gone.thrown, restored);
    }
  }
}

/// A hook of the tensor that the op at `site` made, before its node runs.
void BackwardPass::make_again(std::uint32_t site) {
  const auto part = engine_.checkpoints.dropped_behind(site);
  if (part) ForwardPass(engine_, recompute_settings()).make_again(*part);
}

/// CheckpointWithoutOutputFunction.backward: a backward of its own, whose gradients are added to
/// those that wait outside once it has returned.
void BackwardPass::run_remade(Node& node, std::size_t part) {
  const RemadeResult& what = engine_.checkpoints.remade[part];
  RemadeState& state = now_.remade[part];
  std::vector<GradientSlot> outside;
  for (const RemadeResult::Leaving& leaving : what.leaving) {
    outside.push_back(std::exchange(now_.slots[leaving.target], {}));
  }
  std::vector<StorageId> incoming;
  for (const RemadeResult::Result& result : what.results) {
    incoming.push_back(now_.slots[result.answer].storage);
    recorder_.retain(incoming.back());
  }
  for (std::uint32_t i = what.end; i > what.begin; --i) run_node(node, order_.sites()[i - 1]);
  // ctx.outputs goes as a tuple does, from its last element.
  for (const ThrownResult& gone : state.results | std::views::reverse) {
    recorder_.release(gone.again);
  }
  for (const StorageId gradient : incoming) recorder_.release(gradient);
  for (const StorageId input : state.inputs) recorder_.release(input);
  for (std::size_t i = 0; i < what.leaving.size(); ++i) {
    const RemadeResult::Leaving& leaving = what.leaving[i];
    const OpSite& site = order_.sites()[leaving.site];
    const HandedGradient& handed = order_.program(site).handed[leaving.handed];
    const GradientSlot own = std::exchange(now_.slots[leaving.target], outside[i]);
    if (own.arrived) {
      put(now_.slots[leaving.target], own, {handed.sum_bytes, sum_label(site, handed)});
    }
  }
}

}  // namespace memest
