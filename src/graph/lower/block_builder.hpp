// Writes a block op by op. A tensor is made once and then named by its id; an op is emitted with
// what autograd saves for it, and the builder adds the bytes that both passes move. Which tensors
// need a gradient follows from the inputs, as in autograd.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memest/graph/graph.hpp"

namespace memest {

using Shape = std::vector<Expr>;

/// Element types of a model: its parameters', its contractions', and whether autocast lies between.
struct Precision {
  DType weights = DType::bf16;
  DType compute = DType::bf16;
  bool autocast = false;
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

class BlockBuilder {
 public:
  BlockBuilder(std::string name, const Precision& precision);

  [[nodiscard]] const Precision& precision() const { return precision_; }

  /// What the previous block leaves; also the block's `input`. Its gradient is wanted unless
  /// `data`.
  TensorId block_input(Shape shape, DType dtype);
  /// A tensor from outside that needs no gradient: token ids, cos and sin tables.
  TensorId shared(std::string_view name, Shape shape, DType dtype);
  TensorId parameter(Place place, Shape shape);
  /// A weight that another block owns.
  TensorId tied_parameter(Place place, Shape shape);
  /// A new storage that an op writes.
  TensorId make(Place place, Shape shape, DType dtype);
  TensorId make(Place place, Shape shape, DType dtype, Role role);
  /// The same storage in another shape.
  TensorId view(Place place, TensorId base, Shape shape);

  /// Appends `op`; its work's FLOPs are `flow`'s, its bytes are those of the tensors it names.
  void emit(Op op, const Flow& flow = {});

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return block_.tensors[id]; }
  [[nodiscard]] Tensor& tensor(TensorId id) { return block_.tensors[id]; }
  [[nodiscard]] DType dtype_of(TensorId id) const { return block_.tensors[id].dtype; }
  [[nodiscard]] bool needs_gradient(TensorId id) const { return needs_gradient_[id]; }
  void set_needs_gradient(TensorId id, bool needs) { needs_gradient_[id] = needs; }

  [[nodiscard]] Block take(bool checkpointable = false) &&;

 private:
  TensorId add(Tensor tensor, bool needs_gradient);

  Precision precision_;
  Block block_;
  std::vector<bool> needs_gradient_;
};

}  // namespace memest
