#include "memest/memory/step_tensors.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "memory/allocator/block.hpp"
#include "memory/engine/forward_order.hpp"

namespace memest {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

void add_once(std::vector<std::uint32_t>& list, std::uint32_t item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

/// The operations and tensors of a forward order, without heights.
class Linker {
 public:
  Linker(const Graph& graph, const ForwardOrder& order)
      : graph_(graph), order_(order), tensor_of_(order.cells(), kNone) {}

  StepTensors link() && {
    for (const OpSite& site : order_.sites()) add(site);
    return std::move(step_);
  }

 private:
  void add(const OpSite& site) {
    const std::uint32_t block = order_.instances()[site.instance].block;
    const Block& described = graph_.blocks[block];
    const Op& op = described.ops[site.op];
    const OpProgram& program = order_.op(site);
    const auto index = static_cast<std::uint32_t>(step_.ops.size());
    StepOp linked;
    linked.block = block;
    linked.op = site.op;
    linked.instance = site.instance;
    linked.op_class = class_of(op.kind);
    linked.in_layer = described.checkpointable;
    for (const TensorId id : op.inputs) {
      if (const auto tensor = known(described, site, id)) {
        add_once(linked.reads, *tensor);
        add_once(step_.tensors[*tensor].readers, index);
      }
    }
    make(described, site, linked);
    for (std::uint32_t i = program.saved.begin; i < program.saved.end; ++i) {
      const TensorId id = order_.program(site).tensors[i];
      if (const auto tensor = known(described, site, id)) {
        add_once(linked.saves, *tensor);
        add_once(step_.tensors[*tensor].savers, index);
      }
    }
    step_.ops.push_back(std::move(linked));
  }

  /// Outputs in memory of their own; another op's storage that it writes changes in place, unless
  /// the op is a view.
  void make(const Block& block, const OpSite& site, StepOp& linked) {
    const auto index = static_cast<std::uint32_t>(step_.ops.size());
    const BlockProgram& program = order_.program(site);
    const OpProgram& op = order_.op(site);
    for (std::uint32_t i = op.made.begin; i < op.made.end; ++i) {
      const MadeStorage& made = program.made[i];
      const Tensor& tensor_made = block.tensors[made.tensor];
      // Tables that all layers read are no link of a chain.
      const bool for_all = tensor_made.shared || tensor_made.outlives_block;
      if (made.holding != Holding::activations || for_all) continue;
      std::uint32_t& tensor = tensor_of_[order_.storage_cell(site.instance, made.tensor)];
      tensor = static_cast<std::uint32_t>(step_.tensors.size());
      const std::int64_t bytes = round_up(made.bytes, kMinBlockSize);
      step_.tensors.push_back({bytes, site.instance, made.tensor, {index}, {}, {}});
      linked.makes.push_back(tensor);
    }
    const Op& described = block.ops[site.op];
    if (described.kind == OpKind::view) return;
    for (const TensorId id : described.outputs) {
      const auto tensor = known(block, site, id);
      if (!tensor) continue;
      add_once(linked.makes, *tensor);
      add_once(step_.tensors[*tensor].makers, index);
    }
  }

  [[nodiscard]] std::optional<std::uint32_t> known(const Block& block, const OpSite& site,
                                                   TensorId id) const {
    if (block.tensors[block.tensors[id].storage].role == Role::parameter) return std::nullopt;
    const std::uint32_t tensor = tensor_of_[order_.storage_cell(site.instance, id)];
    return tensor == kNone ? std::nullopt : std::optional(tensor);
  }

  const Graph& graph_;
  const ForwardOrder& order_;
  std::vector<std::uint32_t> tensor_of_;  // by cell
  StepTensors step_;
};

/// Bytes of the step's tensors under a schedule that keeps all, by position: forward passes in
/// order, then backward passes.
std::vector<std::int64_t> kept_by_position(const StepTensors& step) {
  const std::size_t ops = step.ops.size();
  std::vector<std::int64_t> change(2 * ops + 1, 0);
  for (const StepTensor& tensor : step.tensors) {
    const std::size_t read = tensor.readers.empty() ? tensor.makers.back() : tensor.readers.back();
    const std::size_t last = tensor.savers.empty() ? read : 2 * ops - 1 - tensor.savers.front();
    change[tensor.makers.front()] += tensor.bytes;
    change[last + 1] -= tensor.bytes;
  }
  for (std::size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  return change;
}

/// PassHeights of the timeline by position, the highest of all micro-steps.
class PassHeights {
 public:
  PassHeights(const StepTensors& step, const Timeline& timeline, const StepReplay& replay)
      : timeline_(timeline), replay_(replay), highest_(2 * step.ops.size()) {
    std::uint32_t instances = 0;
    for (const StepOp& op : step.ops) instances = std::max(instances, op.instance + 1);
    first_op_.resize(instances);
    for (std::size_t i = step.ops.size(); i > 0; --i) {
      first_op_[step.ops[i - 1].instance] = i - 1;
    }
  }

  /// Reads all forwards and backwards; answers the peak outside of them.
  std::int64_t read() {
    std::int64_t outside = 0;
    std::uint32_t next = 0;
    const auto pass_by = [&](std::uint32_t end) {
      for (; next < end; ++next) {
        apply(timeline_.events[next]);
        outside = std::max(outside, live_);
      }
    };
    for (const Span& span : timeline_.spans) {
      if (span.phase != Phase::forward && span.phase != Phase::backward) continue;
      pass_by(span.begin);
      if (span.phase == Phase::forward) now_.assign(highest_.size(), {});
      position_ = span.phase == Phase::forward ? 0 : now_.size() / 2;
      for (; next < span.end; ++next) reach(timeline_.events[next]);
      if (span.phase == Phase::backward) end_micro_step();
    }
    pass_by(static_cast<std::uint32_t>(timeline_.events.size()));
    return outside;
  }

  [[nodiscard]] const PassHeight& at(std::size_t position) const { return highest_[position]; }

 private:
  void apply(const Event& event) {
    const std::int64_t bytes = replay_.blocks[event.storage].value();
    live_ += event.kind == EventKind::allocate ? bytes : -bytes;
  }

  /// The position of what an event allocates, where that is an operation's.
  [[nodiscard]] std::optional<std::size_t> position_of(const Event& event) const {
    if (event.kind == EventKind::free) return std::nullopt;
    const Label& label = timeline_.storages[event.storage].label;
    const bool of_op = label.origin == Origin::forward || label.origin == Origin::backward;
    if (!of_op || label.place >= first_op_.size()) return std::nullopt;
    const std::size_t op = first_op_[label.place] + label.op;
    return label.origin == Origin::forward ? op : now_.size() - 1 - op;
  }

  void reach(const Event& event) {
    const std::int64_t before = live_;
    apply(event);
    position_ = std::max(position_, position_of(event).value_or(position_));
    PassHeight& height = now_[position_];
    if (height.most == 0) height.before = before;
    height.most = std::max({height.most, live_, before});
  }

  /// Operations that allocate nothing stand as high as what follows them begins.
  void end_micro_step() {
    std::int64_t next = live_;
    for (std::size_t i = now_.size(); i > 0; --i) {
      PassHeight& height = now_[i - 1];
      if (height.most == 0) height = {next, next};
      next = height.before;
      PassHeight& highest = highest_[i - 1];
      highest = {std::max(highest.before, height.before), std::max(highest.most, height.most)};
    }
  }

  const Timeline& timeline_;
  const StepReplay& replay_;
  std::vector<PassHeight> highest_;
  std::vector<PassHeight> now_;        // of the micro-step
  std::vector<std::size_t> first_op_;  // by instance
  std::size_t position_ = 0;
  std::int64_t live_ = 0;
};

}  // namespace

StepTensors step_tensors_of(const Graph& graph, const Timeline& timeline,
                            const StepReplay& replay) {
  // Kernel scratch is in the timeline's heights: none is asked for here.
  const ForwardOrder order(graph, std::nullopt);
  StepTensors step = Linker(graph, order).link();
  PassHeights heights(step, timeline, replay);
  step.outside = heights.read();
  const std::vector<std::int64_t> kept = kept_by_position(step);
  const std::size_t ops = step.ops.size();
  const auto beside = [&](std::size_t position) {
    const PassHeight& height = heights.at(position);
    const std::int64_t before = position == 0 ? 0 : kept[position - 1];
    return PassHeight{std::max<std::int64_t>(0, height.before - before),
                      std::max<std::int64_t>(0, height.most - kept[position])};
  };
  for (std::size_t i = 0; i < ops; ++i) {
    step.ops[i].forward = beside(i);
    step.ops[i].backward = beside(2 * ops - 1 - i);
  }
  return step;
}

}  // namespace memest
