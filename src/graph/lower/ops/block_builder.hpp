// Writes a block op by op. A tensor is made once and then named by its id; an op is emitted with
// what autograd saves for it, and the builder adds the bytes that both passes move. Which tensors
// need a gradient follows from the inputs, as in autograd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/graph/graph.hpp"

namespace memest {

using Shape = std::vector<Expr>;

/// Element types of a model: its parameters', its contractions', and whether autocast lies between.
struct Precision {
  DType weights = DType::bf16;
  DType compute = DType::bf16;
  bool autocast = false;
  /// The type of what is trained where all else is frozen: an adapter's.
  std::optional<DType> adapter = {};
  bool gradients = true;  ///< false: under torch.no_grad
  bool frozen = false;    ///< nothing is trained
  /// F.linear is DeepSpeed's LinearFunctionForZeroStage3 (deepspeed/runtime/zero/linear.py).
  bool linear_in_pieces = false;
};

/// A tensor's place in the block: the op that owns it and its name there. Literals.
struct Place {
  std::string_view op;
  std::string_view name = "out";
};

/// FLOPs of an op, forward and backward.
struct Flow {
  Expr forward;
  Expr backward;
};

/// Writes an op's backward step by step into the op.
class BackwardWriter {
 public:
  /// Index of a tensor that the backward makes.
  using Made = std::uint8_t;

  explicit BackwardWriter(Op& op) : op_(op) {}

  /// The first tensor that the op's forward makes.
  [[nodiscard]] TensorId output() const { return op_.outputs.front(); }

  /// Makes as many elements as `like` has.
  Made make(TensorId like, DType dtype);
  /// As make(), for a moment, of memory that nothing touches.
  void reserve(TensorId like, DType dtype);
  /// Makes a tensor anew that was dropped.
  void remake(Made tensor);
  void drop(Made tensor);
  /// Leaves the steps that follow to the engine: sums and casts of finished gradients.
  void leave_node();
  /// Runs a kernel that makes as many elements as `like` has among its scratch.
  Made launch_making(TensorId like, KernelLaunch kernel);
  /// Runs a kernel with scratch of its own.
  void launch(KernelLaunch kernel);
  void give(TensorId input, Made tensor, Reach reach = Reach::directly);
  /// Makes the first tensor that the op keeps the input's gradient, in place.
  void give_kept(TensorId input);
  /// The output's gradient is the input's.
  void hand_on(TensorId input, Reach reach = Reach::directly);

 private:
  Op& op_;
};

class BlockBuilder {
 public:
  BlockBuilder(std::string name, const Precision& precision);

  [[nodiscard]] const Precision& precision() const { return precision_; }

  /// The tensor that the previous block leaves; also the block's `input`.
  TensorId block_input(Shape shape, DType dtype, bool wants_gradient = true);
  /// The tensor that an op of the block has made there already, if any has.
  [[nodiscard]] std::optional<TensorId> find(Place place) const;
  /// A tensor from outside that needs no gradient: token ids, cos and sin tables.
  TensorId shared(std::string_view name, Shape shape, DType dtype);
  /// The type of what trained_parameter() makes.
  [[nodiscard]] DType trained_type() const {
    return precision_.adapter.value_or(precision_.weights);
  }
  /// Frozen where an adapter is trained instead.
  TensorId parameter(Place place, Shape shape);
  /// An adapter's: the same wherever its module is called again.
  TensorId trained_parameter(Place place, Shape shape);
  /// A parameter of a module trained in full where all else is frozen, in the weights' type.
  TensorId whole_parameter(Place place, Shape shape);
  /// As above, of one that the optimizer does not know.
  TensorId unstepped_parameter(Place place, Shape shape);
  /// A weight that another block owns.
  TensorId tied_parameter(Place place, Shape shape);
  /// A new storage that an op writes.
  TensorId make(Place place, Shape shape, DType dtype);
  TensorId make(Place place, Shape shape, DType dtype, Role role);
  /// A view of the storage in another shape, without an op of its own: gradients do not pass.
  TensorId alias(Place place, TensorId base, Shape shape);
  /// Makes `id` known to later blocks as `name`, a literal, until one of them lets it go.
  void outlive(TensorId id, std::string_view name);
  /// Makes `id` part of what the model answers beside its result.
  void answer(TensorId id) { block_.tensors[block_.tensors[id].storage].answered = true; }
  /// The last op so far (or the first one) ends the reference of the program to what earlier blocks
  /// know as `name`, if any does.
  void let_go(std::string_view name);

  /// The last op so far sends this in its forward; in its backward, where it has one.
  void send_forward(Message message);
  void send_backward(Message message);

  /// From the last op on, and what it releases, attributes of the running module name `ids`.
  void name_attributes(const std::vector<TensorId>& ids,
                       const std::vector<TensorId>& by_graph = {}) {
    block_.ops.back().attributes = ids;
    block_.ops.back().attributes_by_graph = by_graph;
  }
  /// Appends `op`; its work's FLOPs are `flow`'s, its bytes are those of the tensors it names.
  void emit(Op op, const Flow& flow = {});

  [[nodiscard]] std::vector<Op>& ops() { return block_.ops; }
  [[nodiscard]] const Tensor& tensor(TensorId id) const { return block_.tensors[id]; }
  [[nodiscard]] Tensor& tensor(TensorId id) { return block_.tensors[id]; }
  [[nodiscard]] DType dtype_of(TensorId id) const { return block_.tensors[id].dtype; }
  [[nodiscard]] bool needs_gradient(TensorId id) const { return needs_gradient_[id]; }
  void set_needs_gradient(TensorId id, bool needs) { needs_gradient_[id] = needs; }

  /// The function that the block is names `id` until it returns.
  void hold_to_end(TensorId id) { held_to_end_.push_back(id); }
  /// The caller's local ends with the frames that hold the block's input, not with the block.
  void let_input_go() { input_goes_ = true; }
  /// Ops from the `first` on are no part of the loss's graph. Answers what autograd keeps for them
  /// as long as their results are named, the last op's first.
  std::vector<TensorId> abandon(std::size_t first);
  /// A layer follows, of which parts may be captured.
  void begin_parts() { part_begin_ = block_.ops.size(); }
  /// The part of a layer that is captured as `scope` ends here, and the next begins.
  void end_part(GraphScope scope);
  /// Answers `output` to the next block.
  [[nodiscard]] Block take(TensorId output, bool checkpointable = false) &&;

 private:
  friend class Frame;
  friend class FrozenModules;
  friend class PartOfLayer;
  /// A storage whose reference ends with op `op` at the earliest.
  struct Held {
    TensorId storage;
    std::size_t op;
  };

  TensorId add(Tensor tensor, bool needs_gradient);
  void drop_unwanted(Op& op) const;
  [[nodiscard]] Expr backward_traffic(const Op& op, const Expr& written) const;
  void write_releases();

  Precision precision_;
  Block block_;
  std::vector<bool> needs_gradient_;
  bool input_goes_ = false;
  std::size_t part_begin_ = 0;             ///< of the next captured part
  std::vector<bool LayerParts::*> parts_;  // that are being written
  std::vector<TensorId> let_go_first_;     // named before there is an op
  std::vector<Held> held_;                 // in the order in which their functions return
  std::vector<TensorId> held_to_end_;
};

/// Modules that are written while one stands are frozen, or are not.
class FrozenModules {
 public:
  FrozenModules(BlockBuilder& block, bool frozen)
      : block_(block), before_(std::exchange(block.precision_.frozen, frozen)) {}
  ~FrozenModules() { block_.precision_.frozen = before_; }
  FrozenModules(const FrozenModules&) = delete;
  FrozenModules& operator=(const FrozenModules&) = delete;

 private:
  BlockBuilder& block_;
  bool before_;
};

/// The ops emitted while one stands are in that part of the layer.
class PartOfLayer {
 public:
  PartOfLayer(BlockBuilder& block, bool LayerParts::* part) : block_(block) {
    block_.parts_.push_back(part);
  }
  ~PartOfLayer() { block_.parts_.pop_back(); }
  PartOfLayer(const PartOfLayer&) = delete;
  PartOfLayer& operator=(const PartOfLayer&) = delete;

 private:
  BlockBuilder& block_;
};

/// A function of the model's program: its locals live until it returns, other tensors until their
/// last use.
class Frame {
 public:
  explicit Frame(BlockBuilder& block) : block_(block) {}
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  TensorId local(TensorId id) {
    locals_.push_back(id);
    return id;
  }

 private:
  BlockBuilder& block_;
  std::vector<TensorId> locals_;
};

}  // namespace memest
