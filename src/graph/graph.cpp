#include "memest/graph/graph.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace memest {
namespace {

/// A storage that ops keep, named by the tensor that owns it.
using Storages = std::vector<TensorId>;

/// Adds the storage of `tensor` unless it is a parameter or there already.
void keep(Storages& kept, const Block& block, TensorId tensor) {
  const TensorId storage = block.tensors[tensor].storage;
  if (block.tensors[storage].role == Role::parameter) return;
  if (std::find(kept.begin(), kept.end(), storage) == kept.end()) kept.push_back(storage);
}

Storages saved_storages(const Block& block) {
  Storages kept;
  for (const Op& op : block.ops) {
    for (const TensorId tensor : op.saved) keep(kept, block, tensor);
  }
  return kept;
}

/// Storages that stay when `parts` are recomputed: the other ops' saved tensors, and the inputs of
/// the parts, without results that are thrown away.
Storages saved_beside(const Block& block, const SelectiveRecompute& parts) {
  Storages kept;
  Storages made_inside;
  Storages thrown_away;
  for (const Op& op : block.ops) {
    if (!runs_again(parts, op)) {
      for (const TensorId tensor : op.saved) keep(kept, block, tensor);
      continue;
    }
    for (const TensorId tensor : op.inputs) {
      const TensorId storage = block.tensors[tensor].storage;
      if (std::find(made_inside.begin(), made_inside.end(), storage) == made_inside.end()) {
        keep(kept, block, tensor);
      }
    }
    Storages& made = remakes(parts, op.remade) ? thrown_away : made_inside;
    made.insert(made.end(), op.outputs.begin(), op.outputs.end());
  }
  std::erase_if(kept, [&](TensorId storage) {
    return std::find(thrown_away.begin(), thrown_away.end(), storage) != thrown_away.end();
  });
  return kept;
}

Expr total_bytes(const Block& block, const Storages& kept,
                 const std::function<bool(const Tensor&)>& counted) {
  Expr total;
  for (const TensorId storage : kept) {
    if (counted(block.tensors[storage])) total += block.tensors[storage].bytes();
  }
  return total;
}

bool counts_alone(const Tensor& tensor) { return !tensor.shared && !tensor.kept_before; }

/// Bytes of the shared storages of `kept` that `seen` lacks; they are added to it.
Expr unseen_shared_bytes(const Block& block, const Storages& kept,
                         std::vector<std::string_view>& seen) {
  Expr total;
  for (const TensorId storage : kept) {
    const Tensor& tensor = block.tensors[storage];
    if (!tensor.shared || std::find(seen.begin(), seen.end(), tensor.name) != seen.end()) continue;
    seen.push_back(tensor.name);
    total += tensor.bytes();
  }
  return total;
}

}  // namespace

std::vector<std::span<const BlockRun>> Graph::stage_runs() const {
  const std::span<const BlockRun> all(order);
  if (stages.empty()) return {all};
  std::vector<std::span<const BlockRun>> runs;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::size_t end = i + 1 < stages.size() ? stages[i + 1] : all.size();
    runs.push_back(all.subspan(stages[i], end - stages[i]));
  }
  return runs;
}

std::int64_t Graph::layers(std::span<const BlockRun> runs) const {
  std::int64_t layers = 0;
  for (const BlockRun& run : runs) {
    if (blocks[run.block].checkpointable) layers += run.repeat;
  }
  return layers;
}

Expr Block::parameters() const {
  Expr total;
  for (const Tensor& tensor : tensors) {
    if (tensor.role == Role::parameter && !tensor.shared) total += tensor.elements();
  }
  return total;
}

Expr Block::trained_parameters() const {
  Expr total;
  for (const Tensor& tensor : tensors) {
    const bool own = tensor.role == Role::parameter && !tensor.shared;
    if (own && !tensor.frozen) total += tensor.elements();
  }
  return total;
}

Expr Block::saved_bytes(bool shared) const {
  return total_bytes(*this, saved_storages(*this), [shared](const Tensor& tensor) {
    return !tensor.kept_before && (shared || !tensor.shared);
  });
}

Expr Block::saved_bytes_beside(const SelectiveRecompute& parts) const {
  return total_bytes(*this, saved_beside(*this, parts), counts_alone);
}

Expr Block::saved_bytes_without_attention_core() const { return saved_bytes_beside({}); }

Expr Block::saved_cast_bytes() const {
  return total_bytes(*this, saved_storages(*this), [](const Tensor& tensor) {
    return tensor.role == Role::cast_parameter && !tensor.shared;
  });
}

Expr Block::selectively_kept_bytes() const {
  Expr bytes;
  for (const Op& op : ops) {
    for (const TensorId id : kept_by_list(op)) bytes += tensors[id].bytes();
  }
  return bytes;
}

std::vector<TensorId> Block::kept_by_list(const Op& op) const {
  std::vector<TensorId> kept;
  if (op.kept_selectively) {
    std::ranges::copy_if(op.outputs, std::back_inserter(kept),
                         [this](TensorId id) { return tensors[id].storage == id; });
  }
  // A listed call makes others on the way, which the op drops behind it.
  std::vector<bool> made(op.forward_scratch.size(), false);
  for (const Step& step : op.forward_steps) {
    if (step.tensor >= made.size()) continue;
    const bool listed = op.keeps_selectively(step);
    if (step.kind == StepKind::allocate) made[step.tensor] = listed;
    if (step.kind != StepKind::free || !made[step.tensor] || listed) continue;
    kept.push_back(op.forward_scratch[step.tensor]);
  }
  return kept;
}

Expr Block::forward_flops() const {
  Expr total;
  for (const Op& op : ops) total += op.forward.flops;
  return total;
}

Expr Block::backward_flops() const {
  Expr total;
  for (const Op& op : ops) total += op.backward.flops;
  return total;
}

std::vector<Expr> Graph::saved_bytes_by_block() const {
  std::vector<Expr> result;
  std::vector<std::string_view> seen;
  for (const BlockRun& run : order) {
    const Block& block = blocks[run.block];
    const Storages kept = saved_storages(block);
    const Expr own = total_bytes(block, kept, counts_alone);
    const std::size_t first = result.size();
    result.resize(first + static_cast<std::size_t>(run.repeat), own);
    result[first] += unseen_shared_bytes(block, kept, seen);
    if (!shared_layers || !block.checkpointable) continue;
    // Autocast has one copy of a weight for all layers that use it.
    for (std::int64_t layer = 0; layer < run.repeat; ++layer) {
      if (shared_layers->owner_of(layer, run.repeat) == layer) continue;
      result[first + static_cast<std::size_t>(layer)] -= block.saved_cast_bytes();
    }
  }
  return result;
}

Expr Graph::saved_bytes() const {
  Expr total = saved_in_common();
  std::vector<std::int64_t> times(blocks.size());
  for (const BlockRun& run : order) times[run.block] += run.repeat;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (times[i] > 0) total += Expr(times[i]) * blocks[i].saved_bytes(false);
  }
  return total;
}

Expr Graph::saved_in_common() const {
  Expr total = shared_saved_bytes(true);
  if (!shared_layers) return total;
  for (const BlockRun& run : order) {
    const Block& block = blocks[run.block];
    if (!block.checkpointable) continue;
    // Autocast has one copy of a weight for all layers that use it.
    total -= Expr(run.repeat - shared_layers->distinct) * block.saved_cast_bytes();
  }
  return total;
}

Expr Graph::shared_saved_bytes(bool layers) const {
  Expr total;
  std::vector<std::string_view> seen;
  // A block that has run shares nothing new when it runs again.
  std::vector<bool> has_run(blocks.size());
  for (const BlockRun& run : order) {
    const Block& block = blocks[run.block];
    if (has_run[run.block] || (block.checkpointable && !layers)) continue;
    has_run[run.block] = true;
    total += unseen_shared_bytes(block, saved_storages(block), seen);
  }
  return total;
}

Expr Graph::forward_flops() const {
  Expr total;
  for (const BlockRun& run : teacher) total += Expr(run.repeat) * blocks[run.block].forward_flops();
  for (const BlockRun& run : order) total += Expr(run.repeat) * blocks[run.block].forward_flops();
  return total;
}

Expr Graph::backward_flops() const {
  Expr total;
  for (const BlockRun& run : order) total += Expr(run.repeat) * blocks[run.block].backward_flops();
  return total;
}

void bind_tokens(Bindings& bindings, std::int64_t micro_batch, std::int64_t seq_len) {
  const auto up_to = [seq_len](std::int64_t step) {
    return checked_multiply(checked_add(seq_len, step - 1) / step, step);
  };
  bindings.set(Symbol::micro_batch, micro_batch)
      .set(Symbol::seq_len, seq_len)
      .set(Symbol::seq_len_8, up_to(8))
      .set(Symbol::seq_len_32, up_to(32))
      .set(Symbol::seq_len_64, up_to(64))
      .set(Symbol::seq_len_128, up_to(128));
}

std::int64_t context_ranks(const Bindings& bindings) {
  return bindings.has(Symbol::context) ? bindings.at(Symbol::context) : 1;
}

}  // namespace memest
