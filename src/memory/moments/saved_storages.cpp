#include "memory/moments/saved_storages.hpp"

#include <algorithm>
#include <utility>

namespace memest {

SavedStorages::SavedStorages(const Block& block, BlockPass pass, const SelectiveRecompute& parts)
    : block_(block), pass_(pass) {
  const bool leaves_out =
      pass == BlockPass::keep_parts_out || pass == BlockPass::keep_parts_out_too;
  if (leaves_out) parts_ = parts_left_out(block, parts);
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const bool kept = block.ops[i].kept_selectively && block.ops[i].kind == OpKind::attention;
    if (kept && pass == BlockPass::recompute_selected_early) cut_ = i + 1;
  }
  bytes_.reserve(block.tensors.size());
  for (const Tensor& tensor : block.tensors) bytes_.push_back(tensor.bytes());
  for (TensorId id = 0; id < block.tensors.size(); ++id) {
    if (holds(id)) counted_.insert(id);
  }
  keep_saved();
}

bool SavedStorages::stops_early() const {
  return pass_ == BlockPass::recompute || pass_ == BlockPass::recompute_held ||
         pass_ == BlockPass::recompute_selected_early;
}

TensorSet SavedStorages::pending(std::size_t at) const {
  TensorSet result;
  if (takes_selected()) keep_selected(at, block_.ops.size(), result);
  return result;
}

void SavedStorages::keep_selected(std::size_t begin, std::size_t end, TensorSet& kept) const {
  for (std::size_t i = begin; i < end; ++i) {
    for (const TensorId id : block_.kept_by_list(block_.ops[i])) {
      if (counts(id)) kept.insert(id);
    }
  }
}

bool SavedStorages::holds(TensorId id) const {
  const Tensor& base = tensor(storage(id));
  const bool callers =
      pass_ == BlockPass::keep_nothing || pass_ == BlockPass::keep_selected || is_recomputed();
  return base.role != Role::parameter && !base.shared &&
         (!base.kept_before || pass_ == BlockPass::keep_input_too ||
          pass_ == BlockPass::keep_parts_out_too) &&
         !(callers && (storage(id) == storage(block_.input) || is_by_caller(storage(id))));
}

/// Made as the block was called: a checkpoint of the block holds it.
bool SavedStorages::is_by_caller(TensorId made) const {
  for (const Op& op : block_.ops) {
    if (!op.by_caller) return false;
    if (std::find(op.outputs.begin(), op.outputs.end(), made) != op.outputs.end()) return true;
  }
  return false;
}

Expr SavedStorages::bytes(const TensorSet& storages) const {
  Expr total;
  storages.each([&](TensorId id) { total += bytes_of_tensor(id); });
  return total;
}

std::size_t SavedStorages::forward_end() const {
  std::size_t end = block_.ops.size();
  if (!stops_early()) return end;
  // The early stop comes with the last tensor to pack, so what saves nothing behind it is not run
  // again: in a Llama block the residual addition, and (stops_before) down_proj itself.
  while (end > 1 && block_.ops[end - 1].saved.empty()) --end;
  return end;
}

/// Sums what is kept for the backward pass while each operation runs. It mostly grows: storages and
/// bytes are added up from one operation to the next.
void SavedStorages::keep_saved() {
  saved_.reserve(block_.ops.size());
  for (std::size_t at = 0; at < block_.ops.size(); ++at) {
    Saved saved = at > 0 ? saved_[at - 1] : Saved();
    const TensorSet before = saved.storages;
    if (differs_from_before(at)) {
      saved.storages = saved_until(at);
    } else {
      keep_of(at, at, saved.storages);
    }
    saved.storages.each_beyond(before, [&](TensorId id) { saved.bytes += bytes_of_tensor(id); });
    before.each_beyond(saved.storages, [&](TensorId id) { saved.bytes -= bytes_of_tensor(id); });
    saved_.push_back(std::move(saved));
  }
}

/// Whether storages that earlier operations kept change with operation `at`: behind a part that is
/// left out, and behind the cut of a selective checkpoint.
bool SavedStorages::differs_from_before(std::size_t at) const {
  return at == cut_ ||
         std::ranges::any_of(parts_, [at](const PartLeftOut& part) { return at == part.last + 1; });
}

bool SavedStorages::is_thrown_away(TensorId made, std::size_t at) const {
  return std::ranges::any_of(parts_, [&](const PartLeftOut& part) {
    return at > part.last && std::ranges::count(part.results, made) > 0;
  });
}

bool SavedStorages::stops_before(std::size_t at) const {
  if (!stops_early() || at + 1 < forward_end()) return false;
  const Op& op = block_.ops[at];
  // A torch.autograd.Function of Python's packs what it saves when its forward has run: a layer
  // that ends with torchao's float8 linear runs that product too.
  if (op.saves_behind) return false;
  return !op.saved.empty() && std::none_of(op.saved.begin(), op.saved.end(), [&](TensorId id) {
    return std::find(op.outputs.begin(), op.outputs.end(), storage(id)) != op.outputs.end();
  });
}

/// Storages kept for the backward pass while operation `at` runs, forward or backward.
TensorSet SavedStorages::saved_until(std::size_t at) const {
  TensorSet result;
  const std::size_t begin = at < cut_ ? 0 : cut_;
  keep_selected(0, begin, result);
  for (std::size_t op = begin; op <= at; ++op) keep_of(op, at, result);
  return result;
}

/// Adds the storages that operation `op` has kept by the time `at` runs.
void SavedStorages::keep_of(std::size_t op, std::size_t at, TensorSet& kept) const {
  const Op& keeper = block_.ops[op];
  const bool drops = pass_ == BlockPass::keep_nothing || pass_ == BlockPass::keep_answer ||
                     pass_ == BlockPass::keep_selected;
  if (pass_ == BlockPass::keep_selected) keep_selected(op, op + 1, kept);
  if (drops) return keep_held(keeper, kept);
  // Megatron's CheckpointFunction saves the arguments of the part in place of its tensors.
  const auto part = std::ranges::find_if(
      parts_, [&](const PartLeftOut& one) { return one.has(op) && at > one.last; });
  for (const TensorId id : part != parts_.end() ? entering(block_, *part, keeper) : keeper.saved) {
    if (counts(id) && !is_thrown_away(storage(id), at)) kept.insert(storage(id));
  }
}

/// A checkpoint drops what autograd would save, but not what autocast's cache or the model's
/// answer holds.
void SavedStorages::keep_held(const Op& op, TensorSet& kept) const {
  for (const TensorId id : op.outputs) {
    if (tensor(id).role == Role::cast_parameter || tensor(id).answered) kept.insert(storage(id));
  }
}

}  // namespace memest
