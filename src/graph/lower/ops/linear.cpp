// Matrix products with parameters.
#include <utility>
#include <vector>

#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// Gradients of a product of an input and a matrix. With a bias (addmm) the input's comes first,
/// without (mm) the matrix's. The bias's gradient is the output's, summed by the engine.
void write_backward(BlockBuilder& block, Op& op, bool gradient_is_number) {
  // AddmmBackward0 works through mat1, mat2, self, MmBackward0 through mat2, self: generated code
  // takes the arguments by their names.
  BackwardWriter backward(op);
  if (gradient_is_number) op.first_product = 2;
  const TensorId input = op.inputs[0];
  const TensorId matrix = op.inputs[1];
  const bool biased = op.inputs.size() > 2;
  const auto product_like = [&](TensorId operand) {
    const auto made = backward.make(operand, block.dtype_of(operand));
    const TensorId out = op.outputs.front();
    // sum's backward expands one number with strides of 0, which prepare_matrix_for_cublas
    // (cuBlasCommonArgs.h) clones for each product.
    if (gradient_is_number) backward.drop(backward.make(out, block.dtype_of(out)));
    return made;
  };
  BackwardWriter::Made of_input = 0;
  const bool wants_input = block.needs_gradient(input);
  const auto make_input = [&] {
    if (wants_input) of_input = product_like(input);
  };
  if (biased) make_input();
  const bool wants_matrix = block.needs_gradient(matrix);
  const auto of_matrix = wants_matrix ? product_like(matrix) : BackwardWriter::Made{0};
  if (!biased) make_input();
  if (biased && block.needs_gradient(op.inputs[2])) {
    const TensorId bias = op.inputs[2];
    backward.leave_node();
    backward.give(bias, backward.make(bias, block.dtype_of(bias)), Reach::through_view);
    const Tensor& out = block.tensor(op.outputs.front());
    backward.launch(sum_between(out.shape, {out.shape.back()}, out.dtype));
  }
  // A call with a bias sees the input as rows before it transposes the matrix, one without after.
  const auto give_input = [&] {
    if (!wants_input) return;
    const bool is_matrix = block.tensor(input).shape.size() == 2;
    backward.give(input, of_input, is_matrix ? Reach::directly : Reach::through_view);
  };
  if (!biased) give_input();
  // Conv1D's matrix is no view: its gradient is the product itself.
  const Reach seen = op.transposed.empty() ? Reach::directly : Reach::through_view;
  if (wants_matrix) backward.give(matrix, of_matrix, seen);
  if (biased) give_input();
}

/// LinearFunctionForZeroStage3.backward (deepspeed/runtime/zero/linear.py): the gradients of input,
/// matrix and bias, all within the node. The module's input has a node of its own, which hands its
/// gradient on when the parameters have theirs.
void write_backward_in_pieces(BlockBuilder& block, Op& op) {
  BackwardWriter backward(op);
  std::vector<BackwardWriter::Made> made;
  for (const TensorId operand : op.inputs) {
    if (!block.needs_gradient(operand)) continue;
    made.push_back(backward.make(operand, block.dtype_of(operand)));
    if (made.size() < 3) continue;
    const Tensor& out = block.tensor(op.outputs.front());
    backward.launch(sum_between(out.shape, {out.shape.back()}, out.dtype));
  }
  const bool of_input = block.needs_gradient(op.inputs.front());
  std::size_t next = of_input ? 1 : 0;
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    if (block.needs_gradient(op.inputs[i])) backward.give(op.inputs[i], made[next++]);
  }
  if (of_input) backward.give(op.inputs.front(), made.front());
}

/// The product as DeepSpeed's ZeRO 3 has it, which adds the bias in place and saves what it is
/// given when it has run.
void multiply_in_pieces(BlockBuilder& block, Op& op) {
  op.saved = {op.inputs[0], op.inputs[1]};
  op.saves_behind = true;
  op.workspace = Workspace::cublas;
  write_backward_in_pieces(block, op);
}

}  // namespace

TensorId parameter_in_compute(BlockBuilder& block, Place place, TensorId parameter, bool cached) {
  const Precision& precision = block.precision();
  const DType given = block.dtype_of(parameter);
  if (!precision.autocast || given == precision.compute) return parameter;
  // cached_cast() (aten/src/ATen/autocast_mode.cpp) keeps the copies of leaves that require a
  // gradient, under no_grad too: no frozen parameter's, no view's, and not that of a router's
  // weight which the model itself has widened to fp32.
  const Tensor& matrix = block.tensor(parameter);
  const bool keeps = cached && matrix.role == Role::parameter && !matrix.frozen;
  const Role role = keeps ? Role::cast_parameter : Role::activation;
  const TensorId copy = block.make(place, block.tensor(parameter).shape, precision.compute, role);
  Op op;
  op.kind = OpKind::cast;
  op.name = place.op;
  op.inputs = {parameter};
  op.outputs = {copy};
  BackwardWriter backward(op);
  backward.give(parameter, backward.make(parameter, given));
  block.emit(std::move(op));
  return copy;
}

TensorId linear(BlockBuilder& block, const Projection2d& shape, const Rows& rows) {
  Frame call(block);
  call.local(rows.x);
  const Place weight_place{shape.name, "weight"};
  const auto parameter = [&](Place place, Shape of) {
    return shape.whole ? block.whole_parameter(place, std::move(of))
                       : block.parameter(place, std::move(of));
  };
  Factors factors{shape.tied ? block.tied_parameter(weight_place, {shape.out, shape.in})
                             : parameter(weight_place, {shape.out, shape.in})};
  if (shape.bias) factors.bias = parameter({shape.name, "bias"}, {shape.out});
  return product_with(block, shape, factors, rows);
}

TensorId product_with(BlockBuilder& block, const Projection2d& shape, const Factors& factors,
                      const Rows& rows) {
  const bool own_op = shape.bias_call == BiasCall::own_op;
  const bool bias_first = shape.bias_call == BiasCall::first_argument;
  // Autocast casts a call's arguments from the last to the first.
  const bool biased = factors.bias && !own_op;
  TensorId added = factors.bias.value_or(0);
  const auto cast_bias = [&] {
    if (biased) added = parameter_in_compute(block, {shape.name, "cast bias"}, added);
  };
  if (!bias_first) cast_bias();
  // A product written by hand takes a view of the matrix, and its arguments from the last on too.
  const TensorId matrix =
      parameter_in_compute(block, {shape.name, "cast weight"}, factors.weight, !own_op);
  const TensorId input = to_compute(block, shape.name, rows.x);
  if (bias_first) cast_bias();
  Shape out_shape = shape.scattered_to.empty() ? rows.shape : shape.scattered_to;
  out_shape.push_back(shape.out);
  const TensorId out =
      block.make({shape.name, own_op ? "product" : "out"}, out_shape, block.dtype_of(matrix));
  Op op;
  op.kind = OpKind::linear;
  op.name = shape.name;
  op.compute = block.dtype_of(matrix);
  op.inputs = {input, matrix};
  if (biased) op.inputs.push_back(added);
  op.outputs = {out};
  // mm_mat2_backward needs the input, mm_mat1_backward the matrix: a frozen matrix leaves no input
  // behind, as under LoRA.
  if (block.needs_gradient(matrix)) op.saved.push_back(input);
  if (block.needs_gradient(input)) op.saved.push_back(matrix);
  // F.linear multiplies by weight.t(), Conv1D's addmm by the weight as it is.
  if (!bias_first) op.transposed = {matrix};
  // addmm_out_cuda_impl calls gemm_and_bias (cublasLt) for a bias of one dimension; at::mm goes to
  // cuBLAS.
  op.workspace = biased ? Workspace::cublas_lt : Workspace::cublas;
  // Conv1D's addmm is no F.linear.
  if (block.precision().linear_in_pieces && !bias_first) {
    multiply_in_pieces(block, op);
  } else {
    write_backward(block, op, shape.gradient_is_number);
  }
  const Expr flops = Expr(2) * elements_of(rows.shape) * shape.in * shape.out;
  const Expr gradients((block.needs_gradient(input) ? 1 : 0) +
                       (block.needs_gradient(matrix) ? 1 : 0));
  block.emit(std::move(op), {flops, gradients * flops});
  // FalconLinear.forward: hidden_states = input @ self.weight.T, then + self.bias.
  if (!factors.bias || !own_op) return out;
  return add(block, {shape.name}, out, *factors.bias);
}

}  // namespace memest
