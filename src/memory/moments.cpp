#include "moments.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace memest {
namespace {

bool is_float(DType type) {
  switch (type) {
    case DType::fp64:
    case DType::fp32:
    case DType::bf16:
    case DType::fp16:
    case DType::fp8:
      return true;
    case DType::int64:
    case DType::int32:
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return false;
  }
  return false;
}

/// Operations whose backward hands on the incoming gradient instead of making a new tensor.
bool passes_gradient_on(OpKind kind) { return kind == OpKind::add || kind == OpKind::copy; }

/// The gradients on their way through a block. Tensors whose gradient is one buffer share a slot.
class GradientSlots {
 public:
  [[nodiscard]] bool has(TensorId id) const { return slot_of_.contains(id); }

  void make(TensorId id, const Expr& bytes) {
    slot_of_[id] = slots_.size();
    slots_.push_back(bytes);
  }
  void share(TensorId id, TensorId with) { slot_of_[id] = slot_of_.at(with); }
  void drop(TensorId id) { slot_of_.erase(id); }

  /// Whether another tensor's gradient is the same buffer, so that nothing may be added in place.
  [[nodiscard]] bool is_shared(TensorId id) const {
    const std::size_t slot = slot_of_.at(id);
    return std::count_if(slot_of_.begin(), slot_of_.end(),
                         [slot](const auto& entry) { return entry.second == slot; }) > 1;
  }

  [[nodiscard]] Expr bytes() const {
    std::set<std::size_t> held;
    for (const auto& [id, slot] : slot_of_) held.insert(slot);
    Expr total;
    for (const std::size_t slot : held) total += slots_[slot];
    return total;
  }

 private:
  std::map<TensorId, std::size_t> slot_of_;
  std::vector<Expr> slots_;
};

class BlockWalk {
 public:
  BlockWalk(const Block& block, BlockPass pass)
      : block_(block), pass_(pass), last_core_(block.ops.size()) {
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      if (block.ops[i].attention_core) last_core_ = i;
    }
  }

  BlockMoments walk() {
    BlockMoments moments;
    for (std::size_t i = 0; i < forward_end(); ++i) moments.forward.push_back(forward(i));
    receive_output_gradient();
    for (std::size_t i = block_.ops.size(); i-- > 0;) backward(i, moments.backward);
    return moments;
  }

 private:
  using Storages = std::set<TensorId>;

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return block_.tensors[id]; }
  [[nodiscard]] TensorId storage(TensorId id) const { return tensor(id).storage; }

  /// Whether the block's own memory holds this storage: not a parameter, not made outside the
  /// block, not kept by the block before, not the input that a checkpoint keeps.
  [[nodiscard]] bool counts(TensorId id) const {
    const Tensor& base = tensor(storage(id));
    const bool callers = pass_ == BlockPass::keep_nothing || pass_ == BlockPass::recompute;
    return base.role != Role::parameter && !base.shared &&
           (!base.kept_before || pass_ == BlockPass::keep_input_too) &&
           !(callers && storage(id) == storage(block_.input));
  }

  [[nodiscard]] Expr bytes(const Storages& storages) const {
    Expr total;
    for (const TensorId id : storages) total += tensor(id).bytes();
    return total;
  }

  /// A checkpoint's second forward ends with the last operation that saves something.
  [[nodiscard]] std::size_t forward_end() const {
    std::size_t end = block_.ops.size();
    if (pass_ != BlockPass::recompute) return end;
    while (end > 1 && block_.ops[end - 1].saved.empty()) --end;
    return end;
  }

  /// Storages kept for the backward pass while operation `at` runs, forward or backward.
  [[nodiscard]] Storages saved_until(std::size_t at) const {
    Storages result;
    for (std::size_t i = 0; i <= at; ++i) {
      if (pass_ == BlockPass::keep_nothing) {
        keep_casts(block_.ops[i], result);
        continue;
      }
      const Op& op = block_.ops[i];
      const bool dropped =
          pass_ == BlockPass::keep_core_out && op.attention_core && at > last_core_;
      for (const TensorId id : dropped ? entering_core(op) : op.saved) {
        if (counts(id)) result.insert(storage(id));
      }
    }
    return result;
  }

  /// What selective recompute keeps of a core operation: the inputs that no core operation makes.
  [[nodiscard]] std::vector<TensorId> entering_core(const Op& op) const {
    std::vector<TensorId> result;
    for (const TensorId id : op.inputs) {
      const auto makes = [&](const Op& other) {
        return other.attention_core &&
               std::any_of(other.outputs.begin(), other.outputs.end(),
                           [&](TensorId output) { return storage(output) == storage(id); });
      };
      if (std::none_of(block_.ops.begin(), block_.ops.end(), makes)) result.push_back(id);
    }
    return result;
  }

  /// A checkpoint drops what autograd would save, but not what autocast's cache holds.
  void keep_casts(const Op& op, Storages& kept) const {
    for (const TensorId id : op.outputs) {
      if (tensor(id).role == Role::cast_parameter) kept.insert(storage(id));
    }
  }

  /// Storages made or received until `at` that this or a later operation reads, and what it writes.
  [[nodiscard]] Storages live_at(std::size_t at) const {
    const TensorId input = storage(block_.input);  // the caller's local holds it
    Storages made{input};
    for (std::size_t i = 0; i <= at; ++i) {
      for (const TensorId id : block_.ops[i].outputs) made.insert(storage(id));
    }
    Storages result;
    if (counts(input)) result.insert(input);
    for (const TensorId id : block_.ops[at].outputs) {
      if (counts(id)) result.insert(storage(id));
    }
    for (std::size_t i = at; i < block_.ops.size(); ++i) {
      for (const TensorId id : block_.ops[i].inputs) {
        if (counts(id) && made.contains(storage(id))) result.insert(storage(id));
      }
    }
    return result;
  }

  [[nodiscard]] Moment forward(std::size_t at) const {
    const Op& op = block_.ops[at];
    const Storages saved = saved_until(at);
    Storages beside = live_at(at);
    for (const TensorId id : op.forward_scratch) beside.insert(storage(id));
    for (const TensorId id : saved) beside.erase(id);
    return {op.name, bytes(saved), bytes(beside), {}, {}};
  }

  [[nodiscard]] bool has_gradient(TensorId id) const {
    const Tensor& base = tensor(id);
    return is_float(base.dtype) && !base.shared &&
           (base.role == Role::activation || base.role == Role::input ||
            base.role == Role::cast_parameter);
  }

  /// The block's output is what its last operation with one writes first.
  void receive_output_gradient() {
    for (std::size_t i = block_.ops.size(); i-- > 0;) {
      const std::vector<TensorId>& outputs = block_.ops[i].outputs;
      if (outputs.empty() || !has_gradient(outputs.front())) continue;
      gradients_.make(outputs.front(), tensor(outputs.front()).bytes());
      return;
    }
  }

  /// Takes in the gradient of input `id`; what must stand beside the gradients that stay goes to
  /// `passing`.
  void receive(TensorId id, const Op& op, Expr& passing) {
    const Expr bytes = tensor(id).bytes();
    const bool handed_on = passes_gradient_on(op.kind) && gradients_.has(op.outputs.front()) &&
                           bytes == tensor(op.outputs.front()).bytes();
    if (!gradients_.has(id)) {
      if (handed_on) {
        gradients_.share(id, op.outputs.front());
      } else {
        gradients_.make(id, bytes);
      }
      return;
    }
    if (!handed_on) passing += bytes;  // the second arrives beside the first, then adds
    if (gradients_.is_shared(id)) {
      gradients_.drop(id);
      gradients_.make(id, bytes);
    }
  }

  /// Views of an output take their gradients back to it: into a new buffer where they are parts.
  void gather_views(std::size_t at, std::vector<Moment>& moments, const Moment& at_work) {
    const Op& op = block_.ops[at];
    for (const TensorId output : op.outputs) {
      if (!has_gradient(output)) continue;
      std::vector<TensorId> views;  // that are on their way
      for (TensorId id = 0; id < block_.tensors.size(); ++id) {
        if (id != output && storage(id) == storage(output) && gradients_.has(id)) {
          views.push_back(id);
        }
      }
      if (views.empty()) continue;
      const bool whole = views.size() == 1 && tensor(views[0]).bytes() == tensor(output).bytes();
      if (!gradients_.has(output) && whole) {
        gradients_.share(output, views[0]);
      } else if (!gradients_.has(output)) {
        gradients_.make(output, tensor(output).bytes());
        moments.push_back(at_work);
        moments.back().live = gradients_.bytes();
      }  // else the views' gradients are added to the output's own
      for (const TensorId id : views) gradients_.drop(id);
    }
  }

  void backward(std::size_t at, std::vector<Moment>& moments) {
    const Op& op = block_.ops[at];
    Moment moment{op.name, bytes(saved_until(at)), {}, gradient_elements_, {}};
    gather_views(at, moments, moment);
    Expr passing;
    for (const TensorId id : op.inputs) {
      if (has_gradient(id)) receive(id, op, passing);
    }
    Storages scratch;
    for (const TensorId id : op.backward_scratch) scratch.insert(storage(id));
    moment.live = gradients_.bytes() + passing + bytes(scratch);
    for (const TensorId id : op.outputs) gradients_.drop(id);
    count_parameters(op, moment);
    moments.push_back(std::move(moment));
  }

  void count_parameters(const Op& op, Moment& moment) {
    for (const TensorId id : op.inputs) {
      if (tensor(id).role != Role::parameter) continue;
      if (!has_parameter_gradient_.insert(storage(id)).second) continue;
      moment.new_gradient_elements += tensor(id).elements();
    }
    gradient_elements_ += moment.new_gradient_elements;
    moment.gradient_elements = gradient_elements_;
  }

  const Block& block_;
  BlockPass pass_;
  std::size_t last_core_;
  GradientSlots gradients_;
  Storages has_parameter_gradient_;
  Expr gradient_elements_;
};

}  // namespace

BlockMoments moments_of(const Block& block, BlockPass pass) {
  return BlockWalk(block, pass).walk();
}

Expr input_bytes(const Block& block) { return block.tensors[block.input].bytes(); }

}  // namespace memest
