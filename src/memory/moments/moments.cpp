#include "memory/moments/moments.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "memory/moments/gradient_slots.hpp"
#include "memory/moments/saved_storages.hpp"
#include "memory/moments/step_peaks.hpp"

namespace memest {
namespace {

class BlockWalk {
 public:
  BlockWalk(const Block& block, BlockPass pass, const SelectiveRecompute& parts)
      : block_(block), pass_(pass), kept_(block, pass, parts) {}

  BlockMoments walk() {
    BlockMoments moments;
    if (kept_.counts(block_.input))
      moments.begin.live = kept_.bytes_of_tensor(kept_.storage(block_.input));
    for (std::size_t i = 0; i < kept_.forward_end(); ++i) forward(i, moments.forward);
    receive_output_gradient();
    if (kept_.is_recomputed()) {
      moments.before_backward.saved = kept_.bytes(kept_.pending(0));
    } else if (!block_.ops.empty()) {
      moments.before_backward.saved = kept_.at(block_.ops.size() - 1).bytes;
    }
    moments.before_backward.live = gradients_.bytes();
    bool recomputed = !kept_.is_recomputed();
    // The engine's ready queue takes the node with the highest sequence number first: operations
    // run backward in the reverse of their forward order.
    for (std::size_t i = block_.ops.size(); i-- > 0;) {
      // A non-reentrant checkpoint recomputes when the first saved tensor is unpacked
      // (_checkpoint_hook, unpack_hook); a reentrant one, which holds its answer, before any of the
      // block's nodes run.
      if (!recomputed && (!block_.ops[i].saved.empty() || pass_ == BlockPass::recompute_held)) {
        moments.gradients_when_run_again = gradients_.bytes();
        recomputed = true;
      }
      backward(i, moments.backward);
      if (reach(block_.ops[i].forward_messages, RankGroup::expert)) {
        moments.behind_experts = {block_.ops[i].name, saved_before(i), gradients_.bytes(), {}, {}};
      }
    }
    moments.end.live = gradients_.bytes();
    moments.end.gradient_elements = gradient_elements_;
    return moments;
  }

 private:
  /// Under which a checkpoint holds the gradient of its answer.
  static constexpr TensorId kHeld = std::numeric_limits<TensorId>::max();

  [[nodiscard]] Expr made_again(const Op& op) const {
    Expr total;
    if (!kept_.is_recomputed()) return total;
    for (const TensorId like : op.made_when_recomputed) total += kept_.bytes_of_tensor(like);
    return total;
  }

  /// Bytes that a part's checkpoint holds in its backward beside what its operations save.
  [[nodiscard]] Expr held_by(const PartLeftOut& part, std::size_t at) const {
    const TensorSet& saved = kept_.at(at).storages;
    TensorSet held;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      for (const TensorId id : entering(block_, part, block_.ops[i])) {
        if (kept_.counts(id) && !saved.contains(kept_.storage(id))) held.insert(kept_.storage(id));
      }
    }
    return kept_.bytes(held) +
           kept_.bytes_of_tensor(kept_.storage(block_.ops[part.end - 1].outputs.front()));
  }

  /// Storages that the running program refers to, as its operations run one after
  /// another.
  void run(std::size_t at) {
    if (at == 0) {
      const TensorId input = kept_.storage(block_.input);  // the caller's local holds it
      if (kept_.counts(input)) live_.insert(input);
    } else {
      for (const TensorId id : block_.ops[at - 1].releases) live_.erase(kept_.storage(id));
    }
    for (const TensorId id : block_.ops[at].outputs) {
      if (kept_.counts(id)) live_.insert(kept_.storage(id));
    }
  }

  void forward(std::size_t at, std::vector<Moment>& moments) {
    const Op& op = block_.ops[at];
    run(at);
    TensorSet saved = kept_.at(at).storages;
    Expr kept = kept_.at(at).bytes;
    kept_.pending(at).each([&](TensorId id) {
      if (saved.insert(id)) kept += kept_.bytes_of_tensor(id);
    });
    TensorSet beside = live_;
    const bool stopped = kept_.stops_before(at);
    if (stopped) {
      for (const TensorId id : op.outputs) beside.erase(kept_.storage(id));
    }
    // _CachedTorchDispatchMode answers a listed operation from its storage: no kernel runs, so no
    // scratch is asked for.
    const bool taken = kept_.takes_selected() && op.kept_selectively;
    // An op of several calls runs those that are not listed.
    const bool runs = !stopped && (!taken || !op.forward_steps.empty());
    const bool has_course = runs && !op.forward_steps.empty();
    if (runs && !has_course) {
      for (const TensorId id : op.forward_scratch) beside.insert(kept_.storage(id));
    }
    Expr live;
    beside.each_beyond(saved, [&](TensorId id) { live += kept_.bytes_of_tensor(id); });
    moments.push_back({op.name, std::move(kept), std::move(live), {}, {}, at});
    if (!has_course) return;
    const Moment after = moments.back();
    for (const Expr& peak : peaks_of_course(block_, op, kept_.takes_selected())) {
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
    gradients_.make(block_.output, copied ? Expr() : kept_.bytes_of_tensor(block_.output),
                    Reach::directly);
    if (pass_ == BlockPass::recompute_held) gradients_.share(kHeld, gradients_.slot(block_.output));
  }

  void backward(std::size_t at, std::vector<Moment>& moments) {
    const Op& op = block_.ops[at];
    const bool reached = std::any_of(op.outputs.begin(), op.outputs.end(),
                                     [this](TensorId id) { return gradients_.has(id); });
    // Autograd never runs a node that no gradient reaches.
    if (!reached) return;
    Moment moment{op.name, kept_.at(at).bytes, {}, gradient_elements_, {}, at};
    hold(op, at, moment);
    // Where a compiled region computes its forward again, a weight's gradient waits for the kernel
    // that makes the product's input.
    const std::size_t waiting = kept_.is_recomputed() ? op.waiting_steps : 0;
    const Moment before = moment;
    const std::vector<NewGradient> made = count_parameters(op, moment);
    const Expr under_way = gradients_.bytes() + made_again(op);
    if (op.kind != OpKind::view || !op.backward_steps.empty()) {
      const std::span<const Step> steps(op.backward_steps);
      for (const StepPeak& peak : peaks_of_steps(block_, op, steps.subspan(waiting))) {
        moments.push_back(before);
        moments.back().live = under_way + peak.bytes;
        if (waiting == 0) add_gradients(made, peak, moments.back());
      }
    }
    if (waiting > 0) {
      moments.push_back(moment);
      moments.back().live = gradients_.bytes() + stays_beside(op);
      moments.back().saved = saved_before(at);
    }
    hand_over(at, moment, moments);
  }

  [[nodiscard]] Expr saved_before(std::size_t at) const {
    return at > 0 ? kept_.at(at - 1).bytes : Expr();
  }

  /// Bytes that an op has made when its waiting steps run.
  [[nodiscard]] Expr stays_beside(const Op& op) const {
    Expr total = made_again(op);
    for (std::size_t i = 0; i < op.backward_tensors.size(); ++i) {
      if (!becomes_parameter_gradient(block_, op, i)) {
        total += bytes_of_made(block_, op.backward_tensors[i]);
      }
    }
    return total;
  }

  /// Holds, for a checkpoint's backward, its output, that one's gradient, a part's inputs.
  void hold(const Op& op, std::size_t at, Moment& moment) {
    // CheckpointFunction.backward: the locals `outputs` and `args` live until
    // torch.autograd.backward returns.
    if (pass_ == BlockPass::recompute_held) moment.saved += kept_.bytes_of_tensor(block_.output);
    bool inside = false;
    for (const PartLeftOut& part : kept_.parts()) {
      if (part.is_remade()) {
        // A result that is made again lies beside the copy that others saved, up to the part's own
        // backward.
        if (part.begin > at || at > part.last) continue;
        for (const TensorId id : part.results) moment.saved += kept_.bytes_of_tensor(id);
        continue;
      }
      if (at + 1 == part.end && gradients_.has(op.outputs.front())) {
        gradients_.share(kHeld, gradients_.slot(op.outputs.front()));
      }
      if (!part.has(at)) continue;
      moment.saved += held_by(part, at);
      inside = true;
    }
    const bool leaves = !kept_.parts().empty() && !inside;
    if (leaves && gradients_.has(kHeld)) gradients_.drop(kHeld);
  }

  /// The op's gradients take their places; a sum that cannot be made in place is a moment of its
  /// own.
  /// Tensors that the op saved are gone by then.
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
      if (kept_.tensor(gradient.input).role == Role::parameter) continue;
      const bool handed_on = gradient.tensor == InputGradient::kHandedOn;
      // A gradient is handed on as it is (an addition), written into a saved tensor, or a new
      // tensor.
      const bool kept = gradient.tensor == InputGradient::kKept;
      const Expr size = handed_on ? gradients_.bytes_of(*incoming)
                        : kept    ? kept_.bytes_of_tensor(op.saved.front())
                                  : bytes_of_made(block_, op.backward_tensors[gradient.tensor]);
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
      const Expr& whole = kept_.bytes_of_tensor(gradient.input);
      // input_buffer.cpp, can_accumulate_inplace: a second gradient is added into the first one's
      // memory only where nothing else holds that. Elsewhere first, second and sum are alive
      // together.
      const bool in_place = gradients_.adds_in_place(gradient.input);
      moments.push_back(moment);
      moments.back().saved += saved_before(at) - kept_.at(at).bytes;
      moments.back().live = gradients_.bytes() + size + (in_place ? Expr() : whole);
      if (in_place) continue;
      gradients_.drop(gradient.input);
      gradients_.make(gradient.input, whole, Reach::directly);
    }
  }

  /// A parameter's gradient that an op is the first to make.
  struct NewGradient {
    std::optional<std::size_t> tensor;  ///< of those that the op makes; none: it is there before
    Expr elements;
    bool in_buffer = false;  ///< added there by the product that makes it
  };

  /// Adds the gradients of parameters that the op has by the peak.
  static void add_gradients(const std::vector<NewGradient>& made, const StepPeak& peak,
                            Moment& moment) {
    for (const NewGradient& gradient : made) {
      const auto& by_now = peak.gradients;
      if (gradient.tensor && std::ranges::find(by_now, *gradient.tensor) == by_now.end()) continue;
      if (!gradient.in_buffer) moment.new_gradient_elements += gradient.elements;
      moment.gradient_elements += gradient.elements;
    }
  }

  std::vector<NewGradient> count_parameters(const Op& op, Moment& moment) {
    std::vector<NewGradient> made;
    for (const InputGradient& gradient : op.gradients) {
      const TensorId id = gradient.input;
      if (kept_.tensor(id).role != Role::parameter) continue;
      // AccumulateGrad keeps the first gradient as `.grad` and adds the next ones to it: a tied
      // weight counts once.
      if (!has_parameter_gradient_.insert(kept_.storage(id))) continue;
      const bool by_step = gradient.tensor < op.backward_tensors.size();
      const bool whole = kept_.tensor(id).gradient_is_relaid && by_step;
      const TensorId like = whole ? op.backward_tensors[gradient.tensor].like : id;
      made.push_back({{}, kept_.tensor(like).elements()});
      if (by_step) made.back().tensor = gradient.tensor;
      moment.new_gradient_elements += made.back().elements;
    }
    gradient_elements_ += moment.new_gradient_elements;
    if (op.adds_to_buffer) {
      made.push_back({{}, kept_.tensor(*op.adds_to_buffer).elements(), true});
      gradient_elements_ += made.back().elements;
    }
    moment.gradient_elements = gradient_elements_;
    return made;
  }

  const Block& block_;
  BlockPass pass_;
  SavedStorages kept_;
  TensorSet live_;  ///< while one runs forward
  GradientSlots gradients_;
  TensorSet has_parameter_gradient_;
  Expr gradient_elements_;
};

}  // namespace

BlockMoments moments_of(const Block& block, BlockPass pass, const SelectiveRecompute& parts) {
  return BlockWalk(block, pass, parts).walk();
}

Expr input_bytes(const Block& block) { return block.tensors[block.input].bytes(); }

}  // namespace memest
