#include "graph/lower/float8/float8_parallel.hpp"

#include <utility>
#include <vector>

#include "graph/lower/float8/float8_products.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/ops/tensor_parallel.hpp"

namespace memest {
namespace {

constexpr std::string_view kScale = "kept scale";
constexpr std::string_view kGradientsScale = "scale of the gradient";

/// `x` as an operand of [rows, last size], of which the ranks have parts.
Float8Operand operand_of(const BlockBuilder& block, TensorId x) {
  const Tensor& tensor = block.tensor(x);
  Float8Operand operand;
  operand.tensor = x;
  operand.dtype = tensor.dtype;
  operand.rows = Expr(1);
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) operand.rows *= tensor.shape[i];
  operand.columns = tensor.shape.back();
  operand.rows_divided = true;
  return operand;
}

Float8Writer writer_of(BlockBuilder& block, const DecoderContext& context, std::string_view name) {
  return {context, scratch(block, {name, "one scale"}, {Expr(1)}, DType::fp32)};
}

/// The scale of parts that the ranks cast together, and all of them gathered in fp8.
struct GatheredCast {
  Course::Made scale;
  Course::Made whole;
};
/// Gathers `parts`, this rank's cast among them, as the storage in fp8 that `whole` knows.
GatheredCast gathered_cast(const DecoderContext& context, Course& course, const Float8Cast& parts,
                           TensorId whole) {
  // The shards of a single sequence lie as the whole does.
  std::optional<Course::Made> shards;
  if (context.policy.micro_batch > 1) shards = course.make("shards", whole, DType::fp8);
  const auto gathered = course.make("whole", whole, DType::fp8);
  if (shards) course.drop(*shards);
  course.drop(*parts.data);
  course.send({.kind = MessageKind::all_gather,
               .bytes = elements_of(context.dims.rows()) * context.dims.h});
  return {*parts.scale, gathered};
}

/// Writes as the op's outputs a scale, a storage of `shape` in fp8, and what is seen of it, which
/// this answers.
TensorId add_outputs(BlockBuilder& block, Op& op, const Shape& shape, DType dtype) {
  const TensorId scale = block.make({op.name, kScale}, {Expr(1)}, DType::fp32);
  const TensorId data = block.make({op.name, "kept in fp8"}, shape, DType::fp8);
  const TensorId seen = block.alias({op.name, "as it was"}, data, shape);
  block.tensor(seen).dtype = dtype;
  op.outputs = {scale, data, seen};
  return seen;
}

/// PrepareFloat8ModuleInput: cast, then gathered; the gradient is scattered as it comes.
TensorId gathered_in_float8(BlockBuilder& block, const DecoderContext& context,
                            std::string_view name, TensorId x) {
  const DType dtype = block.dtype_of(x);
  Shape shape = context.dims.rows();
  shape.push_back(context.dims.h);
  Op op;
  op.kind = OpKind::copy;
  op.name = name;
  op.inputs = {x};
  const TensorId out = add_outputs(block, op, shape, dtype);
  block.tensor(out).distributed = true;
  Course course;
  const Float8Writer writer = writer_of(block, context, name);
  const Float8Cast part = writer.cast(course, operand_of(block, x), Float8Scales::whole);
  const GatheredCast cast = gathered_cast(context, course, part, op.outputs[1]);
  std::move(course).write_forward(block, op, {cast.scale, cast.whole});
  scatter_gradient(block, op, out, x);
  block.emit(std::move(op));
  return out;
}

/// Float8RowwiseParallel: the shard's gradient is cast, then gathered for the product's backward.
TensorId scattered_from_float8(BlockBuilder& block, const DecoderContext& context,
                               std::string_view name, TensorId x) {
  const Place place{block.tensor(x).op, kGradientsScale};
  const TensorId scale = *block.find(place);
  Frame frame(block);
  const TensorId cut = cut_for_ranks(block, frame, name, x);
  Op op = scattering(block, context, name, cut);
  op.inputs.push_back(scale);
  const TensorId out = op.outputs.front();
  Course course;
  const Float8Writer writer = writer_of(block, context, name);
  const Float8Cast part = writer.cast(course, operand_of(block, out), Float8Scales::whole);
  const GatheredCast cast = gathered_cast(context, course, part, x);
  std::move(course).write_backward(op);
  BackwardWriter backward(op);
  backward.give(cut, cast.whole);
  backward.give(scale, cast.scale);
  block.emit(std::move(op));
  return out;
}

}  // namespace

bool gathers_activations_in_fp8(const DecoderContext& context) {
  const LoweringPolicy& policy = context.policy;
  return context.shards_tensors() && policy.float8 &&
         policy.float8->recipe == Float8Recipe::tensorwise &&
         row_of(policy.implementation.torchtitan).float8_styles;
}

TensorId gathered_input(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                        TensorId x) {
  return gathers_activations_in_fp8(context) ? gathered_in_float8(block, context, name, x)
                                             : gathered(block, context, name, x);
}

TensorId scattered_output(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                          TensorId x) {
  return gathers_activations_in_fp8(context) ? scattered_from_float8(block, context, name, x)
                                             : scattered(block, context, name, x);
}

TensorId summed_input(BlockBuilder& block, const DecoderContext& context,
                      std::string_view projection, TensorId x) {
  if (!gathers_activations_in_fp8(context)) return x;
  Op op;
  op.kind = OpKind::copy;
  op.name = projection;
  op.inputs = {x};
  const TensorId seen = add_outputs(block, op, block.tensor(x).shape, block.dtype_of(x));
  Course course;
  const Float8Cast cast =
      writer_of(block, context, projection).cast(course, operand_of(block, x), Float8Scales::whole);
  std::move(course).write_forward(block, op, {*cast.scale, *cast.data});
  // _ToFloat8ConstrFunc.backward
  BackwardWriter(op).hand_on(x);
  block.emit(std::move(op));
  return seen;
}

void hold_with_scale(const BlockBuilder& block, Frame& frame, TensorId x) {
  frame.local(x);
  if (const auto scale = scale_in_float8(block, x)) frame.local(*scale);
}

/// NoopFwToFloat8BwDynamic.
TensorId with_gradient_in_float8(BlockBuilder& block, const DecoderContext& context,
                                 std::string_view projection, TensorId x) {
  const TensorId scale = *block.find({projection, kGradientsScale});
  const TensorId out =
      block.alias({projection, "with its gradient in fp8"}, x, block.tensor(x).shape);
  Op op;
  op.kind = OpKind::view;
  op.name = projection;
  op.inputs = {x, scale};
  op.outputs = {out};
  Course course;
  const Float8Cast cast =
      writer_of(block, context, projection).cast(course, operand_of(block, x), Float8Scales::whole);
  std::move(course).write_backward(op);
  BackwardWriter backward(op);
  backward.give(x, *cast.data);
  backward.give(scale, *cast.scale);
  block.emit(std::move(op));
  return out;
}

std::optional<TensorId> scale_in_float8(const BlockBuilder& block, TensorId x) {
  const Tensor& seen = block.tensor(x);
  const Tensor& data = block.tensor(seen.storage);
  if (data.dtype != DType::fp8 || seen.dtype == DType::fp8) return std::nullopt;
  return block.find({data.op, kScale});
}

TensorId add_gradients_scale(BlockBuilder& block, std::string_view projection, TensorId out) {
  const TensorId scale = block.alias({projection, kGradientsScale}, out, {Expr(1)});
  block.tensor(scale).dtype = DType::fp32;
  return scale;
}

}  // namespace memest
