#include "memory/moments/moments.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "memory/moments/gradient_slots.hpp"
#include "memory/moments/step_peaks.hpp"

namespace memest {
namespace {

class BlockWalk {
 public:
  BlockWalk(const Block& block, BlockPass pass)
      : block_(block), pass_(pass), last_core_(block.ops.size()) {
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      if (block.ops[i].attention_core) last_core_ = i;
      const bool kept = block.ops[i].kept_selectively && block.ops[i].kind == OpKind::attention;
      if (kept && block.compiled && pass == BlockPass::recompute_selected) cut_ = i + 1;
    }
    bytes_.reserve(block.tensors.size());
    for (const Tensor& tensor : block.tensors) bytes_.push_back(tensor.bytes());
    keep_saved();
  }

  BlockMoments walk() {
    BlockMoments moments;
    if (counts(block_.input)) moments.begin.live = bytes_of_tensor(storage(block_.input));
    for (std::size_t i = 0; i < forward_end(); ++i) forward(i, moments.forward);
    receive_output_gradient();
    if (runs_again()) {
      moments.turn.saved = bytes(pending(0));
    } else if (!block_.ops.empty()) {
      moments.turn.saved = saved_[block_.ops.size() - 1].bytes;
    }
    moments.turn.live = gradients_.bytes();
    bool ran_again = !runs_again();
    for (std::size_t i = block_.ops.size(); i-- > 0;) {
      if (!ran_again && (!block_.ops[i].saved.empty() || pass_ == BlockPass::recompute_held)) {
        moments.gradients_when_run_again = gradients_.bytes();
        ran_again = true;
      }
      backward(i, moments.backward);
    }
    moments.end.live = gradients_.bytes();
    moments.end.gradient_elements = gradient_elements_;
    return moments;
  }

 private:
  using Storages = std::set<TensorId>;
  /// Under which a checkpoint holds the gradient of its answer.
  static constexpr TensorId kHeld = std::numeric_limits<TensorId>::max();

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return block_.tensors[id]; }
  [[nodiscard]] TensorId storage(TensorId id) const { return tensor(id).storage; }

  /// A checkpoint's second forward.
  [[nodiscard]] bool runs_again() const { return pass_ >= BlockPass::recompute; }

  [[nodiscard]] bool stops_early() const {
    return pass_ == BlockPass::recompute || pass_ == BlockPass::recompute_held ||
           (pass_ == BlockPass::recompute_selected && block_.compiled);
  }

  [[nodiscard]] Expr made_again(const Op& op) const {
    Expr total;
    if (!runs_again()) return total;
    for (const TensorId like : op.made_when_run_again) total += bytes_of_tensor(like);
    return total;
  }

  /// Storages of the outputs that a selective checkpoint has kept, of the operations from `at` on.
  [[nodiscard]] Storages pending(std::size_t at) const {
    Storages result;
    if (pass_ == BlockPass::recompute_selected) keep_selected(at, block_.ops.size(), result);
    return result;
  }

  void keep_selected(std::size_t begin, std::size_t end, Storages& kept) const {
    for (std::size_t i = begin; i < end; ++i) {
      if (!block_.ops[i].kept_selectively) continue;
      for (const TensorId id : block_.ops[i].outputs) {
        if (storage(id) == id && counts(id)) kept.insert(id);
      }
    }
  }

  /// Whether the block's own memory holds this storage: not a parameter, not made outside the
  /// block, not kept by the block before, not the input that a checkpoint keeps.
  [[nodiscard]] bool counts(TensorId id) const {
    const Tensor& base = tensor(storage(id));
    const bool callers =
        pass_ == BlockPass::keep_nothing || pass_ == BlockPass::keep_selected || runs_again();
    return base.role != Role::parameter && !base.shared &&
           (!base.kept_before || pass_ == BlockPass::keep_input_too) &&
           !(callers && (storage(id) == storage(block_.input) || is_by_caller(storage(id))));
  }

  /// Made as the block was called: a checkpoint of the block holds it.
  [[nodiscard]] bool is_by_caller(TensorId made) const {
    for (const Op& op : block_.ops) {
      if (!op.by_caller) return false;
      if (std::find(op.outputs.begin(), op.outputs.end(), made) != op.outputs.end()) return true;
    }
    return false;
  }

  [[nodiscard]] const Expr& bytes_of_tensor(TensorId id) const { return bytes_[id]; }
  [[nodiscard]] Expr bytes(const Storages& storages) const {
    Expr total;
    for (const TensorId id : storages) total += bytes_of_tensor(id);
    return total;
  }

  /// A checkpoint's second forward ends with the last operation that saves something.
  [[nodiscard]] std::size_t forward_end() const {
    std::size_t end = block_.ops.size();
    if (!stops_early()) return end;
    while (end > 1 && block_.ops[end - 1].saved.empty()) --end;
    return end;
  }

  /// What is kept for the backward pass while each operation runs. It mostly grows: bytes are added
  /// up from one operation to the next.
  void keep_saved() {
    saved_.reserve(block_.ops.size());
    for (std::size_t at = 0; at < block_.ops.size(); ++at) {
      Storages storages = saved_until(at);
      Expr grown = at > 0 ? saved_[at - 1].bytes : Expr();
      const Storages none;
      const Storages& before = at > 0 ? saved_[at - 1].storages : none;
      for (const TensorId id : storages) {
        if (!before.contains(id)) grown += bytes_of_tensor(id);
      }
      for (const TensorId id : before) {
        if (!storages.contains(id)) grown -= bytes_of_tensor(id);
      }
      saved_.push_back({std::move(storages), std::move(grown)});
    }
  }

  /// Storages kept for the backward pass while operation `at` runs, forward or backward.
  [[nodiscard]] Storages saved_until(std::size_t at) const {
    Storages result;
    if (pass_ == BlockPass::keep_selected) keep_selected(0, at + 1, result);
    const bool drops = pass_ == BlockPass::keep_nothing || pass_ == BlockPass::keep_answer ||
                       pass_ == BlockPass::keep_selected;
    const std::size_t begin = at < cut_ ? 0 : cut_;
    keep_selected(0, begin, result);
    for (std::size_t i = begin; i <= at; ++i) {
      if (drops) {
        keep_held(block_.ops[i], result);
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

  /// Beside what its operations save: what the core's checkpoint holds while it goes back.
  [[nodiscard]] Expr held_by_core(std::size_t at) const {
    const Storages& saved = saved_[at].storages;
    Storages held;
    for (const Op& op : block_.ops) {
      if (!op.attention_core) continue;
      for (const TensorId id : entering_core(op)) {
        if (counts(id) && !saved.contains(storage(id))) held.insert(storage(id));
      }
    }
    return bytes(held) + bytes_of_tensor(storage(block_.ops[last_core_].outputs.front()));
  }

  /// A checkpoint drops what autograd would save, but not what autocast's cache or the model's
  /// answer holds.
  void keep_held(const Op& op, Storages& kept) const {
    for (const TensorId id : op.outputs) {
      if (tensor(id).role == Role::cast_parameter || tensor(id).answered) kept.insert(storage(id));
    }
  }

  /// Storages that the running program refers to, as its operations run one after another.
  void run(std::size_t at) {
    if (at == 0) {
      const TensorId input = storage(block_.input);  // the caller's local holds it
      if (counts(input)) live_.insert(input);
    } else {
      for (const TensorId id : block_.ops[at - 1].releases) live_.erase(storage(id));
    }
    for (const TensorId id : block_.ops[at].outputs) {
      if (counts(id)) live_.insert(storage(id));
    }
  }

  void forward(std::size_t at, std::vector<Moment>& moments) {
    const Op& op = block_.ops[at];
    run(at);
    Storages saved = saved_[at].storages;
    Expr kept = saved_[at].bytes;
    for (const TensorId id : pending(at)) {
      if (saved.insert(id).second) kept += bytes_of_tensor(id);
    }
    Storages beside = live_;
    const bool taken = pass_ == BlockPass::recompute_selected && op.kept_selectively;
    const bool has_course = !taken && !op.forward_steps.empty();
    if (!taken && !has_course) {
      for (const TensorId id : op.forward_scratch) beside.insert(storage(id));
    }
    for (const TensorId id : saved) beside.erase(id);
    moments.push_back({op.name, std::move(kept), bytes(beside), {}, {}});
    if (!has_course) return;
    const Moment after = moments.back();
    for (const Expr& peak : peaks_of_course(block_, op)) {
      moments.push_back(after);
      moments.back().live += peak;
    }
  }

  /// The gradient of the block's output comes from the block behind; a loss's is a number, and so
  /// is what a product copies before it reads it.
  void receive_output_gradient() {
    const auto maker = std::find_if(block_.ops.begin(), block_.ops.end(), [this](const Op& op) {
      return std::find(op.outputs.begin(), op.outputs.end(), block_.output) != op.outputs.end();
    });
    const bool copied = maker != block_.ops.end() && maker->first_product > 1;
    gradients_.make(block_.output, copied ? Expr() : bytes_of_tensor(block_.output),
                    Reach::directly);
    if (pass_ == BlockPass::recompute_held) gradients_.share(kHeld, gradients_.slot(block_.output));
  }

  void backward(std::size_t at, std::vector<Moment>& moments) {
    const Op& op = block_.ops[at];
    const bool reached = std::any_of(op.outputs.begin(), op.outputs.end(),
                                     [this](TensorId id) { return gradients_.has(id); });
    if (!reached) return;
    Moment moment{op.name, saved_[at].bytes, {}, gradient_elements_, {}};
    hold(op, at, moment);
    const std::size_t waiting = runs_again() ? op.waiting_steps : 0;
    if (waiting == 0) count_parameters(op, moment);
    const Expr under_way = gradients_.bytes() + made_again(op);
    if (op.kind != OpKind::view || !op.backward_steps.empty()) {
      const std::span<const Step> steps(op.backward_steps);
      for (const Expr& peak : peaks_of_steps(block_, op, steps.subspan(waiting))) {
        moments.push_back(moment);
        moments.back().live = under_way + peak;
      }
    }
    if (waiting > 0) {
      count_parameters(op, moment);
      moments.push_back(moment);
      moments.back().live = gradients_.bytes() + stays_beside(op);
      moments.back().saved = saved_before(at);
    }
    hand_over(at, moment, moments);
  }

  [[nodiscard]] Expr saved_before(std::size_t at) const {
    return at > 0 ? saved_[at - 1].bytes : Expr();
  }

  /// What an op has made when its waiting steps run.
  [[nodiscard]] Expr stays_beside(const Op& op) const {
    Expr total = made_again(op);
    for (std::size_t i = 0; i < op.backward_tensors.size(); ++i) {
      if (!becomes_parameter_gradient(block_, op, i)) {
        total += bytes_of(block_, op.backward_tensors[i]);
      }
    }
    return total;
  }

  /// What a checkpoint that goes back holds: its answer, that one's gradient, the core's inputs.
  void hold(const Op& op, std::size_t at, Moment& moment) {
    if (pass_ == BlockPass::recompute_held) moment.saved += bytes_of_tensor(block_.output);
    if (pass_ != BlockPass::keep_core_out) return;
    if (at == last_core_ && gradients_.has(op.outputs.front())) {
      gradients_.share(kHeld, gradients_.slot(op.outputs.front()));
    }
    if (op.attention_core) {
      moment.saved += held_by_core(at);
    } else if (gradients_.has(kHeld)) {
      gradients_.drop(kHeld);
    }
  }

  /// The op's gradients take their places; a sum that cannot be made in place is a moment of its
  /// own.
  /// What the op saved is gone by then.
  void hand_over(std::size_t at, const Moment& moment, std::vector<Moment>& moments) {
    const Op& op = block_.ops[at];
    std::optional<std::size_t> incoming;
    for (const TensorId id : op.outputs) {
      if (!gradients_.has(id)) continue;
      if (!incoming) incoming = gradients_.slot(id);
      gradients_.drop(id);
    }
    std::map<std::uint8_t, std::size_t> summed;  // slots of tensors that several inputs share
    std::optional<std::size_t> viewed;           // of the output's gradient, seen in parts
    for (const InputGradient& gradient : op.gradients) {
      if (tensor(gradient.input).role == Role::parameter) continue;
      const bool handed_on = gradient.tensor == InputGradient::kHandedOn;
      const bool kept = gradient.tensor == InputGradient::kKept;
      const Expr size = handed_on ? gradients_.bytes_of(*incoming)
                        : kept    ? bytes_of_tensor(op.saved.front())
                                  : bytes_of(block_, op.backward_tensors[gradient.tensor]);
      if (gradient.reach == Reach::summed && !handed_on) {
        const auto [slot, fresh] = summed.insert({gradient.tensor, 0});
        if (fresh) {
          gradients_.make(gradient.input, size, Reach::directly);
          slot->second = gradients_.slot(gradient.input);
        } else {
          gradients_.share(gradient.input, slot->second);
        }
        continue;
      }
      if (!gradients_.has(gradient.input)) {
        if (handed_on && gradient.reach == Reach::directly) {
          gradients_.share(gradient.input, *incoming);
        } else if (handed_on && viewed) {
          gradients_.share(gradient.input, *viewed);
        } else {
          gradients_.make(gradient.input, size, gradient.reach);
          if (handed_on) viewed = gradients_.slot(gradient.input);
        }
        continue;
      }
      const Expr& whole = bytes_of_tensor(gradient.input);
      const bool in_place = gradients_.adds_in_place(gradient.input);
      moments.push_back(moment);
      moments.back().saved += saved_before(at) - saved_[at].bytes;
      moments.back().live = gradients_.bytes() + size + (in_place ? Expr() : whole);
      if (in_place) continue;
      gradients_.drop(gradient.input);
      gradients_.make(gradient.input, whole, Reach::directly);
    }
  }

  void count_parameters(const Op& op, Moment& moment) {
    for (const InputGradient& gradient : op.gradients) {
      const TensorId id = gradient.input;
      if (tensor(id).role != Role::parameter) continue;
      if (!has_parameter_gradient_.insert(storage(id)).second) continue;
      const bool whole =
          tensor(id).gradient_is_relaid && gradient.tensor < op.backward_tensors.size();
      const TensorId like = whole ? op.backward_tensors[gradient.tensor].like : id;
      moment.new_gradient_elements += tensor(like).elements();
    }
    gradient_elements_ += moment.new_gradient_elements;
    if (op.adds_to_buffer) gradient_elements_ += tensor(*op.adds_to_buffer).elements();
    moment.gradient_elements = gradient_elements_;
  }

  const Block& block_;
  BlockPass pass_;
  std::size_t last_core_;
  /// A selective checkpoint compiled with its block computes again what stands behind, before.
  std::size_t cut_ = 0;
  std::vector<Expr> bytes_;  ///< of every tensor
  struct Saved {
    Storages storages;
    Expr bytes;
  };
  std::vector<Saved> saved_;  ///< while each operation runs
  Storages live_;             ///< while one runs forward
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
