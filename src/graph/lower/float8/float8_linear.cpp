// torchao 0.16, float8/float8_linear.py: matmul_with_hp_or_float8_args, op by op as eager PyTorch
// runs it. It saves the input and the weight as they were; each pass casts anew.
//
//   forward    out = 8(x) · 8(Wᵀ)
//   backward   dX = 8(dY) · 8(W), dW = 8(dYᵀ) · 8(X)
//
// A cast reads its operand twice: for its largest values, of which the scale is made in fp64, and
// to be scaled in fp32, clamped and written.
#include "graph/lower/float8/float8_linear.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/float8/float8_products.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/parameters/parameter_names.hpp"
#include "memest/graph/float8_weights.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// _scaled_mm takes operands whose rows and columns are multiples of this (cuBLASLt).
constexpr std::int64_t kMultiple = 16;

/// No part of a layer, which alone is compiled.
constexpr std::string_view kHead = "lm_head";

/// A linear layer of a decoder, and its module in the state dict.
struct Float8Module {
  std::string_view projection;
  std::string_view DecoderNames::*module;
};
constexpr std::array kModules = {Float8Module{"q_proj", &DecoderNames::q},
                                 Float8Module{"k_proj", &DecoderNames::k},
                                 Float8Module{"v_proj", &DecoderNames::v},
                                 Float8Module{"qkv_proj", &DecoderNames::qkv},
                                 Float8Module{"o_proj", &DecoderNames::attention_output},
                                 Float8Module{"gate_proj", &DecoderNames::gate},
                                 Float8Module{"up_proj", &DecoderNames::up},
                                 Float8Module{"gate_up_proj", &DecoderNames::gate_up},
                                 Float8Module{"down_proj", &DecoderNames::down},
                                 Float8Module{kHead, &DecoderNames::head}};

/// Whose runs were recorded; torchtitan's models under its own name.
constexpr std::array<std::string_view, 6> kFamilies = {"llama", "mistral", "qwen2",
                                                       "qwen3", "phi3",    kTorchtitan};

std::string_view family_of(const DecoderContext& context) {
  return stored_type(context.habits.model_type, context.policy.implementation);
}

/// A module's name in the state dict, without the layer before it.
std::string_view name_of(const DecoderContext& context, const Float8Module& linear) {
  return names_of(family_of(context)).*linear.module;
}

bool is_in(std::string_view part, std::string_view name) {
  return name.find(part) != std::string_view::npos;
}

/// _auto_filter_for_tensorwise and _auto_filter_for_rowwise: too small to gain (N rows, K columns).
bool is_small(Float8Recipe recipe, std::int64_t n, std::int64_t k) {
  if (recipe == Float8Recipe::tensorwise) return k <= 4096 && n <= 1024;
  return n <= 2048 || k <= 1024 || (n <= 4096 && k <= 2048);
}

/// The linear's tensors as operands.
struct Float8Operands {
  Float8Operand input;
  Float8Operand weight;
  Float8Operand output;
  TensorId one = 0;
};

Float8Operands operands_of(BlockBuilder& block, const Projection2d& shape, const Shape& rows,
                           const Op& op) {
  Expr tokens(1);
  for (const Expr& size : rows) tokens *= size;
  const auto numbers = [&](std::string_view name, const Expr& count) {
    return scratch(block, {shape.name, name}, {count}, DType::fp32);
  };
  Float8Operands all;
  all.one = numbers("scale", Expr(1));
  const TensorId a_token = numbers("a scale a token", tokens);
  const TensorId an_input = numbers("a scale an input channel", shape.in);
  const TensorId an_output = numbers("a scale an output channel", shape.out);
  const TensorId x = op.inputs[0];
  const TensorId w = op.inputs[1];
  const TensorId y = op.outputs[0];
  all.input = {x, block.dtype_of(x), tokens, shape.in, a_token, an_input};
  all.weight = {w, block.dtype_of(w), shape.out, shape.in, an_output, an_input, true};
  all.output = {y, block.dtype_of(y), tokens, shape.out, a_token, an_output};
  return all;
}

void write_forward(BlockBuilder& block, Op& op, const DecoderContext& context,
                   const Float8Operands& of) {
  const Float8Recipe recipe = context.policy.float8->recipe;
  const Float8Scales scales =
      recipe == Float8Recipe::tensorwise ? Float8Scales::whole : Float8Scales::row;
  const Float8Writer writer(context, of.one);
  Course course;
  const Float8Cast x = writer.cast(course, of.input, scales);
  const Float8Cast w = writer.cast(course, of.weight, scales);
  // _scaled_mm_out_cuda (ATen/native/cuda/ScaledBlas.cpp): scales by rows go to cuBLASLt on compute
  // capability 9.0, elsewhere to CUTLASS's kernel.
  const bool library = scales == Float8Scales::whole || context.policy.capability == kHopper;
  const auto out = writer.multiply(course, x, w,
                                   {.like = of.output.tensor,
                                    .dtype = of.output.dtype,
                                    .fast_accumulation = true,
                                    .library = library});
  drop(course, w);
  drop(course, x);
  std::move(course).write_forward(block, op, out);
}

/// The input's gradient, then the weight's, from what was not cast where the recipe says so.
void write_backward(BlockBuilder& block, Op& op, const DecoderContext& context,
                    const Float8Operands& of) {
  const Float8Recipe recipe = context.policy.float8->recipe;
  const Float8Scales by_row =
      recipe == Float8Recipe::tensorwise ? Float8Scales::whole : Float8Scales::row;
  const Float8Scales by_column =
      recipe == Float8Recipe::tensorwise ? Float8Scales::whole : Float8Scales::column;
  const bool plain = recipe == Float8Recipe::rowwise_with_gw_hp;
  const Float8Writer writer(context, of.one);
  const TensorId x = of.input.tensor;
  const TensorId w = of.weight.tensor;
  Course course;
  std::vector<Float8Cast> casts = {writer.cast(course, of.output, by_row)};
  casts.push_back(writer.cast(course, of.weight, plain ? Float8Scales::whole : by_column));
  Float8Product to_input{.like = x, .dtype = of.output.dtype, .right_copy = w};
  if (plain) to_input.repeated_scale = of.weight.one_a_column;
  const auto dx = writer.multiply(course, casts[0], casts[1], to_input);
  Course::Made dw = 0;
  if (plain) {
    dw = course.make("product", w, of.output.dtype);
    course.run_product();
  } else {
    casts.push_back(writer.cast(course, of.output, by_column));
    casts.push_back(writer.cast(course, of.input, by_column));
    const Float8Product to_weight{w, of.output.dtype, of.output.tensor, x};
    dw = writer.multiply(course, casts[2], casts[3], to_weight);
  }
  for (const Float8Cast& cast : casts) drop(course, cast);
  std::move(course).write_backward(op);
  BackwardWriter backward(op);
  // Under autocast the engine casts what it was given. A weight gathered in fp8 goes by the type
  // that FSDP2 would have gathered (Float8TrainingTensor's orig_dtype), the output's.
  if (of.weight.dtype != of.output.dtype && of.weight.dtype != DType::fp8) {
    backward.leave_node();
    const auto wide = backward.make(w, of.weight.dtype);
    backward.drop(dw);
    dw = wide;
  }
  const bool flat = block.tensor(x).shape.size() == 2;
  backward.give(x, dx, flat ? Reach::directly : Reach::through_view);
  backward.give(w, dw, Reach::through_view);
}

/// Why layers that are compiled cannot be followed in float8; none where they can.
std::optional<Unavailable> compiled_refusal(const DecoderContext& context) {
  if (!context.compiles_layers()) return std::nullopt;
  const auto refuses = [](std::string_view where) {
    return Unavailable{"torch.compile beside float8 linears is not available yet " +
                       std::string(where)};
  };
  if (context.program.region_checkpoint != RegionCheckpoint::inside) {
    return refuses("in another program than torchtitan");
  }
  if (context.policy.float8->recipe == Float8Recipe::rowwise_with_gw_hp) {
    return refuses("with the recipe rowwise_with_gw_hp");
  }
  if (context.policy.autocast || context.policy.weights != DType::bf16) {
    return refuses("under autocast, or with weights that are not gathered in bf16");
  }
  return std::nullopt;
}

/// Why the output head cannot be followed in float8; none where it can, or is left out.
std::optional<Unavailable> head_refusal(const DecoderContext& context) {
  if (!runs_in_float8(context, {kHead, context.dims.embedding, context.dims.v})) {
    return std::nullopt;
  }
  // Float8Linear.from_float wraps the head's weight in a parameter of its own: the tie is undone.
  if (context.policy.float8->all_gather && context.decoder.tied_embeddings) {
    return Unavailable{
        "a float8 head that is tied to the embedding and gathered in fp8 is not available yet"};
  }
  if (context.policy.end != ForwardEnd::cross_entropy) {
    return Unavailable{"a sum of logits behind a float8 head is not available yet"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Unavailable> float8_refusal(const DecoderContext& context) {
  if (!context.policy.float8) return std::nullopt;
  const Float8Linears& float8 = *context.policy.float8;
  const auto refuses = [](const std::string& sentence) { return Unavailable{sentence}; };
  if (std::ranges::find(kFamilies, family_of(context)) == kFamilies.end()) {
    std::string known;
    for (const std::string_view one : kFamilies)
      known += (known.empty() ? "" : ", ") + std::string(one);
    return refuses("float8 linears are available in models of model_type " + known);
  }
  if (context.has_rope_cache()) {
    return refuses("float8 linears in torchtitan's Qwen3 are not available yet");
  }
  const bool dense = std::ranges::all_of(context.decoder.kinds, [](const LayerKind& kind) {
    return std::holds_alternative<DenseFeedForward>(kind.feed_forward);
  });
  if (!dense) return refuses("float8 linears beside experts are not available yet");
  if (context.adapter != nullptr) {
    return refuses("float8 linears beside an adapter are not available yet");
  }
  if (auto refused = compiled_refusal(context)) return refused;
  if (context.liger().any()) {
    return refuses("Liger's kernels beside float8 linears are not available yet");
  }
  const bool cuts_sequences = context.policy.context > 1 && !context.compiles_layers();
  if (context.policy.tensor > 1 || cuts_sequences || !context.policy.parts.empty()) {
    return refuses(
        "float8 linears beside tensor, context or pipeline parallelism are not available yet");
  }
  if (context.caches()) {
    return refuses("a key-value cache beside float8 linears is not available yet");
  }
  const bool rows = float8.recipe != Float8Recipe::tensorwise;
  // _scaled_mm_cuda (ATen/native/cuda/ScaledBlas.cpp): with a scale a tensor, and by rows.
  if (context.policy.capability < (rows ? kHopper : kAda)) {
    return refuses(rows ? "float8 products with scales by rows run from compute capability 9.0 on"
                        : "float8 products run from compute capability 8.9 on");
  }
  const std::int64_t tokens = checked_multiply(context.policy.micro_batch, context.policy.seq_len);
  if (tokens % kMultiple != 0) {
    return refuses("float8 products sum over the tokens of a micro-batch, a multiple of 16: not " +
                   std::to_string(tokens));
  }
  for (const std::string& filter : float8.filter_fqns) {
    const bool known = filter == kAutoFilterSmallKn ||
                       std::ranges::any_of(kModules, [&](const Float8Module& linear) {
                         return is_in(filter, name_of(context, linear));
                       });
    if (!known) return refuses("no linear layer's name contains '" + filter + "'");
  }
  return head_refusal(context);
}

bool runs_in_float8(const DecoderContext& context, const Projection2d& shape) {
  const std::optional<Float8Linears>& float8 = context.policy.float8;
  if (!float8) return false;
  const auto* const row = std::ranges::find(kModules, shape.name, &Float8Module::projection);
  if (row == kModules.end()) return false;
  Bindings sizes;
  bind_sizes(context, sizes);
  const auto size_of_side = [&](const Expr& side) { return narrow_to_int64(side.evaluate(sizes)); };
  const std::int64_t n = size_of_side(shape.out);
  const std::int64_t k = size_of_side(shape.in);
  if (n % kMultiple != 0 || k % kMultiple != 0) return false;
  return std::ranges::none_of(float8->filter_fqns, [&](const std::string& filter) {
    if (filter == kAutoFilterSmallKn) return is_small(float8->recipe, n, k);
    return is_in(filter, name_of(context, *row));
  });
}

std::vector<bool> gathered_in_fp8(const Graph& graph, const ModelSpec& model,
                                  const Implementation& implementation) {
  std::vector<bool> gathered(graph.parameters.parameters.size());
  const DecoderNames& names = names_of(stored_type(model.model_type, implementation));
  for (const Block& block : graph.blocks) {
    for (const Tensor& tensor : block.tensors) {
      if (tensor.role != Role::parameter || tensor.dtype != DType::fp8) continue;
      const std::string_view module =
          names.*std::ranges::find(kModules, tensor.op, &Float8Module::projection)->module;
      for (std::size_t row = 0; row < gathered.size(); ++row) {
        const std::string& name = graph.parameters.parameters[row].name;
        gathered[row] = gathered[row] || name == std::string(module) + ".weight";
      }
    }
  }

  return gathered;
}

TensorId float8_linear(BlockBuilder& block, const DecoderContext& context,
                       const Projection2d& shape, const Rows& rows) {
  Frame call(block);
  call.local(rows.x);
  const Place place{shape.name, "weight"};
  const Shape of_weight = {shape.out, shape.in};
  const TensorId weight =
      shape.tied ? block.tied_parameter(place, of_weight) : block.parameter(place, of_weight);
  if (context.policy.float8->all_gather) block.tensor(weight).dtype = DType::fp8;
  // Float8Linear.forward casts as autocast would; the weight stays as it is.
  const TensorId input = to_compute(block, shape.name, rows.x);
  Shape out_shape = rows.shape;
  out_shape.push_back(shape.out);
  Op op;
  op.kind = OpKind::linear;
  op.name = shape.name;
  op.compute = DType::fp8;
  op.inputs = {input, weight};
  op.outputs = {
      block.make({shape.name, shape.bias ? "product" : "out"}, out_shape, block.dtype_of(input))};
  op.saved = {input, weight};
  op.saves_behind = true;
  op.workspace = Workspace::cublas_lt_twice;
  const TensorId out = op.outputs.front();
  const Float8Operands operands = operands_of(block, shape, rows.shape, op);
  if (context.compiles_layers() && shape.name != kHead) {
    // The region writes what its kernels make of it (compile/float8_in_region.cpp).
    BackwardWriter backward(op);
    backward.give(input, backward.make(input, operands.output.dtype));
    backward.give(weight, backward.make(weight, operands.output.dtype));
  } else {
    write_forward(block, op, context, operands);
    write_backward(block, op, context, operands);
  }
  const Expr flops = Expr(2) * operands.input.rows * shape.in * shape.out;
  block.emit(std::move(op), {flops, Expr(2) * flops});
  if (!shape.bias) return out;
  const TensorId bias = parameter_in_compute(
      block, {shape.name, "cast bias"}, block.parameter({shape.name, "bias"}, {shape.out}), false);
  return add(block, {shape.name}, out, bias);
}

}  // namespace memest
