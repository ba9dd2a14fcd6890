// Functions of Python's around one product, line by line: bitsandbytes 0.50, nn/modules.py:
// Linear8bitLt.forward with has_fp16_weights=False, autograd/_functions.py: MatMul8bitLt, and
// backends/cuda/ops.py. No column of the input is an outlier.
#include "graph/lower/quantized/int8_linear.hpp"

#include <optional>
#include <utility>

#include "graph/lower/ops/course.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// The tensors of one product, and what is as large as parts of them.
struct Int8Operands {
  TensorId input = 0;
  TensorId weight = 0;
  TensorId out = 0;
  TensorId a_token = 0;    ///< a number each
  TensorId a_channel = 0;  ///< of the result, likewise
  TensorId one = 0;
};

Int8Operands int8_operands_of(BlockBuilder& block, const Projection2d& shape, const Rows& rows) {
  constexpr std::int64_t kBits = 8;
  Int8Operands of{.input = rows.x};
  of.weight = block.parameter({shape.name, "weight"}, {shape.out, shape.in});
  block.tensor(of.weight).dtype = DType::int8;
  block.tensor(of.weight).bits = kBits;
  Shape out_shape = rows.shape;
  out_shape.push_back(shape.out);
  of.out = block.make({shape.name, "out"}, out_shape, block.dtype_of(rows.x));
  of.a_token = scratch(block, {shape.name, "a number a token"}, rows.shape, DType::fp32);
  of.a_channel = scratch(block, {shape.name, "a number a channel"}, {shape.out}, DType::fp32);
  of.one = scratch(block, {shape.name, "a flag"}, {Expr(1)}, DType::boolean);
  return of;
}

/// int8_vectorwise_quant: which columns have outliers is read back, and none has.
void look_for_outliers(Course& course, const Int8Operands& of, const Expr& elements,
                       bool several_rows) {
  const auto magnitudes = course.make("magnitudes", of.input, DType::fp16);
  const auto outliers = course.make("outliers", of.input, DType::boolean);
  course.drop(magnitudes);
  const auto any = course.make("any outlier", of.one, DType::boolean);
  KernelLaunch kernel;
  kernel.kind = KernelLaunch::Kind::maximum;
  kernel.dtype = DType::boolean;
  kernel.reduced = elements;
  course.launch(std::move(kernel));
  course.drop(any);
  // out_row[:, outlier_cols] = 0, which sends the number.
  if (several_rows) course.drop(course.make("zero", of.one, DType::int8));
  course.drop(outliers);
}

struct Int8Forward {
  bool looks_for_outliers = true;
  bool several_rows = true;
};

void write_int8_forward(BlockBuilder& block, Op& op, const Int8Operands& of,
                        const Int8Forward& how) {
  const DType type = block.dtype_of(of.input);
  const bool is_half = type == DType::fp16;
  Course course;
  // A.to(torch.float16), in any type of the input; the result likewise.
  std::optional<Course::Made> half;
  if (!is_half) half = course.make("input in fp16", of.input, DType::fp16);
  const auto scales = course.make("scales of the input", of.a_token, DType::fp32);
  const auto codes = course.make("codes of the input", of.input, DType::int8);
  if (how.looks_for_outliers) {
    look_for_outliers(course, of, block.tensor(of.input).elements(), how.several_rows);
  }
  if (half) course.drop(*half);
  const auto product = course.make("product", of.out, DType::int32);
  const auto scaled = course.make(is_half ? "out" : "result in fp16", of.out, DType::fp16);
  auto out = scaled;
  if (!is_half) {
    out = course.make("out", of.out, type);
    course.drop(scaled);
  }
  course.drop(product);
  course.drop(codes);
  course.drop(scales);
  std::move(course).write_forward(block, op, {out});
}

/// CB = state.CB.to(ctx.dtype_A, copy=True).mul_(SCB.unsqueeze(1).mul(1.0 / 127.0)).
void write_int8_backward(BlockBuilder& block, Op& op, const Int8Operands& of) {
  const DType type = block.dtype_of(of.input);
  Course course;
  const auto weight = course.make("weight", of.weight, type);
  course.drop(course.make("scales", of.a_channel, DType::fp32));
  const auto gradient = course.make("gradient", of.input, type);
  course.drop(weight);
  std::move(course).write_backward(op);
  constexpr std::size_t kSteps = 4;  // to the product, which makes the gradient
  op.first_product = kSteps;
  // grad_A = torch.matmul(...).view(ctx.grad_shape)
  BackwardWriter(op).give(of.input, gradient, Reach::through_view);
}

}  // namespace

TensorId int8_linear(BlockBuilder& block, const DecoderContext& context, const Projection2d& shape,
                     const Rows& rows) {
  Frame call(block);
  call.local(rows.x);
  const Int8Operands of = int8_operands_of(block, shape, rows);
  Op op;
  op.kind = OpKind::linear;
  op.name = shape.name;
  op.compute = block.dtype_of(rows.x);
  op.inputs = {of.input, of.weight};
  op.outputs = {of.out};
  // ctx.tensors = (CAt, subA, A), past ctx.save_for_backward.
  op.named_by_node = {of.input};
  // cigemmlt_32 asks for none; that of the backward is PyTorch's product.
  op.workspace = Workspace::cublas;
  if (shape.bias) op.inputs.push_back(block.parameter({shape.name, "bias"}, {shape.out}));
  Bindings sizes;
  bind_sizes(context, sizes);
  const Expr tokens = elements_of(rows.shape);
  write_int8_forward(block, op, of,
                     {.looks_for_outliers = context.quantized->threshold > 0,
                      .several_rows = narrow_to_int64(tokens.evaluate(sizes)) > 1});
  write_int8_backward(block, op, of);
  const Expr flops = Expr(2) * tokens * shape.in * shape.out;
  block.emit(std::move(op), {flops, flops});
  return of.out;
}

}  // namespace memest
