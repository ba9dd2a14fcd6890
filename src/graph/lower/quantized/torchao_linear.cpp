// torchao 0.13, dtypes/nf4tensor.py: LinearNF4 and NF4Tensor.get_original_weight, line by line. In
// every pass the weight is made from its codes by PyTorch's own kernels: at their end 14 bytes of
// each of its elements are there in 16 bits, where bitsandbytes' kernel makes the weight alone.
#include "graph/lower/quantized/torchao_linear.hpp"

#include <utility>

#include "graph/lower/ops/course.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/spec/compression/quantized.hpp"

namespace memest {
namespace {

struct Nf4Operands {
  TensorId input = 0;
  TensorId weight = 0;
  TensorId out = 0;
  TensorId half = 0;    ///< a number for every second code, as bytes hold two
  TensorId scales = 0;  ///< a number a block of codes
};

/// get_original_weight(), of which the weight stays.
class OriginalWeight {
 public:
  OriginalWeight(const Nf4Operands& of, DType type) : of_(of), type_(type) {}

  Course::Made in(Course& course) const {
    const auto first = index_of_halves(course);
    const auto second = index_of_halves(course);
    const auto dequantized_first = course.make("first of two", of_.half, type_);
    const auto dequantized_second = course.make("second of two", of_.half, type_);
    const auto scales = dequantize_scalers(course);
    const auto scaled_first = scaled(course);
    const auto scaled_second = scaled(course);
    const auto weight = course.make("weight", of_.weight, type_);
    for (const auto local : {first, second, dequantized_first, dequantized_second, scales,
                             scaled_first, scaled_second}) {
      course.drop(local);
    }
    return weight;
  }

 private:
  /// (self.quantized_data >> 4).to(torch.long)
  Course::Made index_of_halves(Course& course) const {
    const auto codes = course.make("codes of every second", of_.half, DType::uint8);
    const auto index = course.make("their index", of_.half, DType::int64);
    course.drop(codes);
    return index;
  }
  Course::Made dequantize_scalers(Course& course) const {
    const auto divided = course.make("scales without their mean", of_.scales, type_);
    const auto scales = course.make("scales", of_.scales, type_);
    course.drop(divided);
    return scales;
  }
  /// dequantized * repeated.flatten(), which is written out.
  Course::Made scaled(Course& course) const {
    const auto repeated = course.make("repeated scales", of_.half, type_);
    const auto product = course.make("scaled", of_.half, type_);
    course.drop(repeated);
    return product;
  }

  const Nf4Operands& of_;
  DType type_;
};

/// The codes of a weight, and what is as large as parts of them.
Nf4Operands codes_of(BlockBuilder& block, const DecoderContext& context, const Projection2d& shape,
                     TensorId weight) {
  constexpr std::int64_t kCodesOfByte = 2;
  const QuantizedWeights& quantized = *context.quantized;
  const Expr elements = shape.in * shape.out;
  Nf4Operands of{.weight = weight};
  of.half = scratch(block, {shape.name, "every second code"}, {elements / Expr(kCodesOfByte)},
                    DType::uint8);
  of.scales = scratch(block, {shape.name, "a number a block"},
                      {elements / Expr(quantized.group_size)}, DType::int8);
  return of;
}

Nf4Operands nf4_operands_of(BlockBuilder& block, const DecoderContext& context,
                            const Projection2d& shape, const Rows& rows) {
  const TensorId weight = block.parameter({shape.name, "weight"}, {shape.out, shape.in});
  block.tensor(weight).dtype = DType::uint8;
  block.tensor(weight).bits = row_of(context.quantized->format).bits;
  Nf4Operands of = codes_of(block, context, shape, weight);
  of.input = rows.x;
  Shape out_shape = rows.shape;
  out_shape.push_back(shape.out);
  of.out =
      block.make({shape.name, shape.bias ? "product" : "out"}, out_shape, block.dtype_of(rows.x));
  return of;
}

void write_forward(BlockBuilder& block, Op& op, const Nf4Operands& of) {
  const DType type = block.dtype_of(of.input);
  Course course;
  const auto weight = OriginalWeight(of, type).in(course);
  const auto out = course.make("out", of.out, type);
  course.run_product();
  course.drop(weight);
  std::move(course).write_forward(block, op, {out});
}

/// grad_output @ weight.to(grad_output.dtype)
void write_gradient_of_input(BlockBuilder& block, Op& op, const Nf4Operands& of) {
  const DType type = block.dtype_of(of.input);
  Course course;
  const auto weight = OriginalWeight(of, type).in(course);
  const auto gradient = course.make("gradient", of.input, type);
  course.drop(weight);
  std::move(course).write_backward(op);
  BackwardWriter(op).give(of.input, gradient);
}

}  // namespace

TensorId torchao_linear(BlockBuilder& block, const DecoderContext& context,
                        const Projection2d& shape, const Rows& rows) {
  Frame call(block);
  call.local(rows.x);
  const Nf4Operands of = nf4_operands_of(block, context, shape, rows);
  Op op;
  op.kind = OpKind::linear;
  op.name = shape.name;
  op.compute = block.dtype_of(rows.x);
  op.inputs = {of.input, of.weight};
  op.outputs = {of.out};
  op.saved = {of.weight};
  op.saves_behind = true;
  op.workspace = Workspace::cublas;
  write_forward(block, op, of);
  write_gradient_of_input(block, op, of);
  const Expr flops = Expr(2) * elements_of(rows.shape) * shape.in * shape.out;
  block.emit(std::move(op), {flops, flops});
  if (!shape.bias) return of.out;
  // LoRALinear.forward: out = out + self.bias
  return add(block, {shape.name}, of.out, block.parameter({shape.name, "bias"}, {shape.out}));
}

TensorId torchao_weight(BlockBuilder& block, const DecoderContext& context,
                        const Projection2d& shape) {
  Nf4Operands of = codes_of(block, context, shape, *block.find({shape.name, "weight"}));
  const DType type = context.policy.compute;
  of.out = block.make({shape.name, "dequantized weight"}, {shape.out, shape.in}, type);
  Op op;
  op.kind = OpKind::copy;
  op.name = shape.name;
  op.inputs = {of.weight};
  op.outputs = {of.out};
  Course course;
  const auto weight = OriginalWeight(of, type).in(course);
  std::move(course).write_forward(block, op, {weight});
  block.emit(std::move(op), {});
  return of.out;
}

}  // namespace memest
