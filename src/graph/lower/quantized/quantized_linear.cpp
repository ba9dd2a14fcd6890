// Functions of Python's around one product, line by line: bitsandbytes 0.50,
// nn/modules.py: Linear4bit.forward and autograd/_functions.py: MatMul4Bit; HQQ 0.2.8,
// core/quantize.py: HQQMatmulNoCacheMul. The weight is made from its codes in every pass and
// dropped behind the product.
#include "graph/lower/quantized/quantized_linear.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "graph/lower/ops/course.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/quantized/four_bit_kernels.hpp"
#include "graph/lower/quantized/int8_linear.hpp"
#include "graph/lower/quantized/torchao_linear.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::int64_t kBitsOfByte = 8;

std::int64_t value_of(const DecoderContext& context, const Expr& size) {
  Bindings sizes;
  bind_sizes(context, sizes);
  return narrow_to_int64(size.evaluate(sizes));
}

/// The tensors of one product, and what is as large as parts of its weight.
struct CodeOperands {
  TensorId input = 0;
  TensorId weight = 0;
  TensorId out = 0;
  TensorId scales = 0;  ///< a number a group of codes
  TensorId codes = 0;   ///< a byte each
};

/// A weight made from its codes.
class Dequantization {
 public:
  /// `coded`: the type of the weights that the codes stand for.
  Dequantization(const QuantizedWeights& quantized, DType compute, DType coded,
                 const CodeOperands& of)
      : quantized_(quantized), compute_(compute), coded_(coded), of_(of) {}

  /// Answers the weight; what it is made from beside it is dropped by the caller in turn.
  struct Result {
    Course::Made weight = 0;
    std::vector<Course::Made> rest;
  };
  [[nodiscard]] Result in_forward(Course& course) const {
    if (row_of(quantized_.format).of_hqq()) return {of_groups(course), {}};
    Result result;
    // _dequant_linear_fallback names absmax_dq, absmax and B_dq until it returns; `absmax` is the
    // argument of that name.
    if (quantized_.double_quant) {
      const auto dequantized = course.make("absmax in fp32", of_.scales, DType::fp32);
      result.rest = {course.make("absmax", of_.scales, DType::fp32), dequantized};
    }
    result.weight = course.make("weight", of_.weight, compute_);
    return result;
  }
  [[nodiscard]] Course::Made in_backward(Course& course) const {
    if (row_of(quantized_.format).of_hqq()) return of_groups(course);
    // functional.py, dequantize_4bit: absmax += offset, in place.
    if (!quantized_.double_quant) return in_type(course, of_codes(course));
    const auto absmax = course.make("absmax", of_.scales, DType::fp32);
    const auto weight = of_codes(course);
    course.drop(absmax);
    return in_type(course, weight);
  }

 private:
  [[nodiscard]] Course::Made of_codes(Course& course) const {
    return course.make("weight", of_.weight, coded_);
  }
  /// MatMul4Bit.backward: dequantize_4bit(B, ctx.state).to(grad_output.dtype).
  [[nodiscard]] Course::Made in_type(Course& course, Course::Made weight) const {
    if (coded_ == compute_) return weight;
    const auto cast = course.make("weight in type", of_.weight, compute_);
    course.drop(weight);
    return cast;
  }

  /// Quantizer.dequantize: ((unpacked − zero) · scale).
  [[nodiscard]] Course::Made of_groups(Course& course) const {
    const auto unpacked = course.make("unpacked", of_.weight, compute_);
    unpack(course);
    const auto shifted = course.make("unpacked − zero", of_.weight, compute_);
    const auto weight = course.make("weight", of_.weight, compute_);
    course.drop(shifted);
    course.drop(unpacked);
    return weight;
  }

  /// core/bitpack.py: every part of a byte is masked, and all but the last one shifted.
  void unpack(Course& course) const {
    const std::int64_t parts = kBitsOfByte / row_of(quantized_.format).bits;
    if (parts == 1) return;
    for (std::int64_t part = 0; part < parts; ++part) {
      const auto masked = course.make("masked", of_.codes, DType::uint8);
      if (part + 1 == parts) {
        course.drop(masked);
        continue;
      }
      const auto shifted = course.make("shifted", of_.codes, DType::uint8);
      course.drop(masked);
      course.drop(shifted);
    }
  }

  const QuantizedWeights& quantized_;
  DType compute_;
  DType coded_;
  CodeOperands of_;
};

bool fused(const DecoderContext& context, const Projection2d& shape, const Rows& rows) {
  if (row_of(context.quantized->format).of_hqq()) return false;
  return multiplies_codes({.rows = value_of(context, elements_of(rows.shape)),
                           .out = value_of(context, shape.out),
                           .in = value_of(context, shape.in),
                           .dtype = context.policy.compute,
                           .capability = context.policy.capability,
                           .multiprocessors = context.policy.multiprocessors});
}

void write_forward(BlockBuilder& block, Op& op, const Dequantization& dequantization,
                   const CodeOperands& of) {
  Course course;
  const Dequantization::Result made = dequantization.in_forward(course);
  const auto out = course.make("out", of.out, block.dtype_of(of.out));
  course.run_product();
  for (const Course::Made one : made.rest) course.drop(one);
  course.drop(made.weight);
  std::move(course).write_forward(block, op, {out});
}

void write_fused_forward(BlockBuilder& block, Op& op, const CodeOperands& of) {
  Course course;
  const auto out = course.make("out", of.out, block.dtype_of(of.out));
  std::move(course).write_forward(block, op, {out});
}

/// The weight is frozen: the input's gradient alone.
void write_backward(BlockBuilder& block, Op& op, const Dequantization& dequantization,
                    const CodeOperands& of) {
  Course course;
  const auto weight = dequantization.in_backward(course);
  const auto gradient = course.make("gradient", of.input, block.dtype_of(of.input));
  course.drop(weight);
  std::move(course).write_backward(op);
  BackwardWriter(op).give(of.input, gradient);
}

CodeOperands operands_of(BlockBuilder& block, const DecoderContext& context,
                         const Projection2d& shape, TensorId input) {
  const QuantizedWeights& quantized = *context.quantized;
  const WeightFormatRow& format = row_of(quantized.format);
  const Expr elements = shape.in * shape.out;
  CodeOperands of{.input = input};
  of.weight = block.parameter({shape.name, "weight"}, {shape.out, shape.in});
  block.tensor(of.weight).dtype = DType::uint8;
  block.tensor(of.weight).bits = format.bits;
  of.scales = scratch(block, {shape.name, "a number a group"},
                      {elements / Expr(quantized.group_size)}, DType::fp32);
  of.codes = scratch(block, {shape.name, "codes"},
                     {elements * Expr(format.bits) / Expr(kBitsOfByte)}, DType::uint8);
  return of;
}

/// The product of an input in the compute type.
TensorId product_of_codes(BlockBuilder& block, const DecoderContext& context,
                          const Projection2d& shape, const Rows& rows) {
  const DType compute = context.policy.compute;
  const bool hqq = row_of(context.quantized->format).of_hqq();
  CodeOperands of = operands_of(block, context, shape, rows.x);
  Shape out_shape = rows.shape;
  out_shape.push_back(shape.out);
  // Linear4bit hands its bias to the product, HQQ adds it in place.
  const bool biased = shape.bias && !hqq;
  of.out = block.make({shape.name, biased || !shape.bias ? "out" : "product"}, out_shape, compute);
  Op op;
  op.kind = OpKind::linear;
  op.name = shape.name;
  op.compute = compute;
  op.inputs = {of.input, of.weight};
  op.outputs = {of.out};
  // HQQMatmulNoCacheMul.setup_context keeps x; no backward reads it.
  if (hqq) op.saved = {of.input};
  // MatMul4Bit.forward: ctx.tensors = (None, B), a view of the codes.
  if (!hqq) op.named_by_node = {of.weight};
  op.saves_behind = true;
  // LinearFunctionForZeroStage3.forward adds the bias behind the product.
  const bool added = block.precision().linear_in_pieces;
  op.workspace = biased && !added ? Workspace::cublas_lt : Workspace::cublas;
  if (shape.bias) {
    // `bias.data = bias.data.to(x.dtype)`: in the compute type from the first forward on.
    const TensorId bias = block.parameter({shape.name, "bias"}, {shape.out});
    block.tensor(bias).dtype = compute;
    op.inputs.push_back(bias);
  }
  const DType coded = context.program.codes_of_fp16 ? DType::fp16 : compute;
  const Dequantization dequantization(*context.quantized, compute, coded, of);
  if (fused(context, shape, rows)) {
    write_fused_forward(block, op, of);
  } else {
    write_forward(block, op, dequantization, of);
  }
  write_backward(block, op, dequantization, of);
  const Expr flops = Expr(2) * elements_of(rows.shape) * shape.in * shape.out;
  block.emit(std::move(op), {flops, flops});
  return of.out;
}

}  // namespace

TensorId quantized_linear(BlockBuilder& block, const DecoderContext& context,
                          const Projection2d& shape, const Rows& rows) {
  if (context.quantized->format == WeightFormat::int8) {
    return int8_linear(block, context, shape, rows);
  }
  if (row_of(context.quantized->format).of_torchao()) {
    return torchao_linear(block, context, shape, rows);
  }
  Frame call(block);
  call.local(rows.x);
  // Linear4bit.forward: x = x.to(self.compute_dtype), and the result .to(inp_dtype).
  const TensorId input =
      cast(block, {shape.name, "input in compute type"}, rows.x, context.policy.compute);
  if (input != rows.x) call.local(input);
  const TensorId out = product_of_codes(block, context, shape, {rows.shape, input});
  return cast(block, {shape.name, "in type"}, out, block.dtype_of(rows.x));
}

namespace {

/// Autocast has a layer norm answer fp32, and Linear4bit and Linear8bitLt then cast their bias to
/// it for good (`self.bias.data = self.bias.data.to(x.dtype)`).
bool widens_biases(const DecoderContext& context) {
  const LoweringPolicy& policy = context.policy;
  if (!policy.autocast || !is_half(policy.weights) || context.names.stored_in_out) return false;
  if (context.decoder.norm.kind != NormKind::layernorm) return false;
  return context.attention.q_bias || context.attention.kv_bias ||
         std::ranges::any_of(context.decoder.kinds, [](const LayerKind& kind) {
           const auto* dense = std::get_if<DenseFeedForward>(&kind.feed_forward);
           return dense != nullptr && dense->bias;
         });
}

}  // namespace

std::optional<Unavailable> quantized_refusal(const DecoderContext& context) {
  if (context.quantized == nullptr) return std::nullopt;
  const auto unavailable = [](const char* what) {
    return Unavailable{std::string(what) + " is not available yet"};
  };
  if (!context.program.has.quantized) {
    return Unavailable{
        "quantised weights are bitsandbytes', HQQ's and torchao's, in models of the "
        "implementations transformers, litgpt and torchtune"};
  }
  if (context.compiles_layers()) return unavailable("torch.compile beside quantised weights");
  if (context.latent() != nullptr) return unavailable("latent attention with quantised weights");
  if (context.decoder.embedding_size != context.decoder.hidden_size) {
    return unavailable("a projected embedding beside quantised weights");
  }
  if (!context.program.has.quantized_head && !context.decoder.tied_embeddings &&
      quantizes(*context.quantized, context.names.head)) {
    return unavailable("a quantised output head");
  }
  constexpr std::string_view kUsual = "lm_head";  // which a tied model has no module of
  for (const std::string& module : context.quantized->skip_modules) {
    if (module == kUsual || has_module(context, module)) continue;
    return Unavailable{"this model has no linear module that '" + module +
                       "' of 'skip_modules' names"};
  }
  const bool hqq = row_of(context.quantized->format).of_hqq();
  if (hqq && context.names.stored_in_out) {
    return unavailable("HQQ, which replaces torch.nn.Linear alone, in a model of Conv1D,");
  }
  const bool torchao = row_of(context.quantized->format).of_torchao();
  const bool int8 = context.quantized->format == WeightFormat::int8;
  if (int8 && context.names.stored_in_out) return unavailable("LLM.int8() in a model of Conv1D");
  if (!hqq && !torchao && widens_biases(context)) {
    return unavailable(
        "quantised weights behind layer norms, with biases, under autocast of 16-bit weights");
  }
  if (!hqq && !torchao && !int8 && context.policy.multiprocessors == 0) {
    return Unavailable{
        "products of codes depend on the GPU's multiprocessors, which are not known"};
  }
  return std::nullopt;
}

}  // namespace memest
