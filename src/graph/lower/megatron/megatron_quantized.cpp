#include "graph/lower/megatron/megatron_quantized.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "graph/lower/megatron/megatron_adapter.hpp"

namespace memest {
namespace {

constexpr std::int64_t kWide = 2;  // bytes of bf16

/// Both operands along rows (forward), or one of the gradient's products, must be multiples
/// (pytorch/utils.py, assert_dim_for_fp8_exec; MXFP8Quantizer, NVFP4Quantizer, is_quantizable).
std::int64_t least_multiple(const TeRecipeRow& row) {
  constexpr std::int64_t kLeast = 16;
  return std::max(kLeast, row.block);
}

}  // namespace

ProductCasts::ProductCasts(const MegatronContext& context, QuantizedProduct product)
    : context_(context),
      product_(std::move(product)),
      linears_(*context.quantized),
      row_(row_of(linears_.recipe)),
      transposes_(scales_tensors(linears_.recipe) && !reads_columns(context.policy.capability)) {}

Expr ProductCasts::one(const Expr& elements) const {
  constexpr std::int64_t kBitsOfAByte = 8;
  const Expr data = Expr(row_.bits) * elements / Expr(kBitsOfAByte);
  return row_.block == 0 ? data : data + Expr(row_.scale_bytes) * elements / Expr(row_.block);
}

Expr ProductCasts::both(const Expr& elements) const {
  return Expr(te_copies(linears_.recipe, context_.policy.capability)) * one(elements);
}

Expr ProductCasts::own(const Expr& elements, bool gathered) const {
  return gathered ? elements / context_.t : elements;
}

/// A copy of 8 bits, read and written.
Expr ProductCasts::transposed(const Expr& elements) const {
  return transposes_ ? Expr(2) * one(elements) : Expr();
}

Expr ProductCasts::cast(const Expr& elements, bool by_columns) const {
  // NVFP4's columns are another kernel than its rows.
  const bool apart = linears_.recipe == TeRecipe::nvfp4 && !by_columns;
  const Expr read = Expr((apart ? row_.reads - 1 : row_.reads) * kWide) * elements;
  return read + (by_columns ? both(elements) : one(elements));
}

/// extensions/normalization.cpp: the norm's kernel writes a tensor of a known scale cast, of which
/// a transpose may be made, and finds the largest value for one of its own; others are cast as
/// anywhere.
Expr ProductCasts::cast_behind_norm(const Expr& elements, bool by_columns) const {
  if (linears_.recipe == TeRecipe::delayed) return by_columns ? transposed(elements) : Expr();
  const Expr whole = cast(elements, by_columns);
  return linears_.recipe == TeRecipe::current ? whole - Expr(kWide) * elements : whole;
}

/// layernorm_linear.py, with_quantized_norm: the norm writes 16 bits where they are answered too,
/// which are cast behind it: the rank's own rows, and all that it has gathered.
Expr ProductCasts::cast_of_input(const Expr& given) const {
  const bool by_columns = casts_columns_of_input();
  if (!product_.behind_norm) return cast(given, by_columns);
  if (!product_.returns_norm) return cast_behind_norm(given, by_columns);
  const Expr own_rows = cast(given, by_columns);
  return product_.gathered ? own_rows + cast(product_.input, false) : own_rows;
}

/// A tensor with one scale is gathered along rows, and transposed then.
Expr ProductCasts::cast_of_gradient() const {
  const Expr given = own(product_.output, product_.gathers_gradient);
  if (!casts_columns_of_gradient()) return cast(given, false);
  const bool later = product_.gathers_gradient && scales_tensors(linears_.recipe);
  return later ? cast(given, false) + transposed(product_.output) : cast(given, true);
}

/// Weights of 16 bits are cast in a step's first micro-batch alone (get_weight_workspace with
/// is_first_microbatch). Primary ones in 8 bits get transposes, or columns, once they are gathered
/// (post_all_gather_processing); MXFP8's are cast from what was gathered in 16. Frozen ones stay as
/// they were made.
Expr ProductCasts::cast_of_weight() const {
  if (!product_.trained && linears_.param_gather) return {};
  const Expr& elements = product_.weight_elements;
  const std::int64_t copies = te_copies(linears_.recipe, context_.policy.capability);
  const bool in_eight = linears_.param_gather && linears_.recipe != TeRecipe::mxfp8;
  if (in_eight) return Expr(copies - 1) * Expr(2) * one(elements);
  // A weight is not transformed: its columns are read with its rows.
  const std::int64_t reads = linears_.recipe == TeRecipe::nvfp4 ? row_.reads - 1 : row_.reads;
  return Expr(reads * kWide) * elements + both(elements);
}

/// set_save_original_input (extensions/transformer_engine.py, from Transformer Engine 2.6 on).
bool ProductCasts::keeps_given() const {
  return product_.trained && product_.input_is_kept && linears_.recipe != TeRecipe::delayed &&
         context_.policy.implementation.transformer_engine != TeRelease::te_2_2;
}

/// Columns are the weight's gradient's (backward_needs_input). "All-gather is not supported with
/// FP8 column-wise data": of tensors with one scale.
bool ProductCasts::casts_columns_of_input() const {
  return product_.trained && !keeps_given() &&
         !(product_.gathers_input && scales_tensors(linears_.recipe));
}

/// LayerNormLinear and GroupedLinear, and every product of 2.2, make them for a frozen weight
/// too.
bool ProductCasts::casts_columns_of_gradient() const {
  return product_.trained || product_.behind_norm || product_.grouped ||
         context_.policy.implementation.transformer_engine == TeRelease::te_2_2;
}

Expr ProductCasts::gathered_gradient() const {
  const Expr along = one(product_.output);
  const bool twice = casts_columns_of_gradient() && !scales_tensors(linears_.recipe);
  return twice ? Expr(2) * along : along;
}

/// A frozen weight's backward wants nothing of the input; but LayerNormLinear saves the rows that
/// it has multiplied, which it clears where it does not answer them in 16 bits.
void ProductCasts::keep_input(BlockBuilder& block, TensorId x, const Expr& given, Op& op) const {
  if (keeps_given()) op.saved.push_back(x);
  if (keeps_given() || (!product_.trained && !product_.returns_norm)) {
    op.forward_scratch.push_back(
        scratch(block, {product_.name, "quantized input"}, {one(given)}, DType::uint8));
    return;
  }
  // The rows, of which the columns take the place.
  if (casts_columns_of_input() && te_copies(linears_.recipe, context_.policy.capability) > 1) {
    op.forward_scratch.push_back(
        scratch(block, {product_.name, "rows of the input"}, {one(given)}, DType::uint8));
  }
  const TensorId kept = block.make({product_.name, "quantized input"}, {one(given)}, DType::uint8);
  op.outputs.push_back(kept);
  op.saved.push_back(kept);
}

void ProductCasts::write_forward(BlockBuilder& block, TensorId x, Op& op) const {
  op.compute = row_.operand;
  // csrc/extensions/gemm.cpp: from 10.0 on blockwise tensors are multiplied as MXFP8's.
  const bool as_mxfp8 =
      linears_.recipe == TeRecipe::blockwise && context_.policy.capability >= kBlackwell;
  op.casts.scaling = as_mxfp8 ? row_of(TeRecipe::mxfp8).scaling : row_.scaling;
  const bool gathers = product_.gathers_input || product_.gathered;
  const Expr given = own(product_.input, gathers);
  op.casts.forward = cast_of_input(given);
  op.casts.in_a_step = cast_of_weight();
  op.casts.backward = cast_of_gradient();
  if (keeps_given()) {
    // linear.py, backward: columns alone, but of tensors with one scale, whose rows they are made
    // of.
    op.casts.backward += cast(product_.input, scales_tensors(linears_.recipe));
  } else if (product_.trained && product_.gathers_input) {
    op.casts.backward += transposed(product_.input);
  }
  op.saved = product_.weights;
  keep_input(block, x, given, op);
  if (gathers) {
    op.forward_scratch.push_back(
        scratch(block, {product_.name, "gathered input"}, {one(product_.input)}, DType::uint8));
  }
}

void ProductCasts::begin(BlockBuilder& block, BackwardWriter& backward) {
  const auto make = [&](std::string_view name, const Expr& count) {
    const TensorId like = scratch(block, {product_.name, name}, {count}, DType::uint8);
    made_.push_back(backward.make(like, DType::uint8));
  };
  const Expr& output = product_.output;
  make("quantized gradient", casts_columns_of_gradient() ? both(output) : one(output));
  if (!product_.trained || (!product_.gathers_input && !keeps_given())) return;
  make("columns of the input", transposes_ ? both(product_.input) : one(product_.input));
}

void ProductCasts::end(BackwardWriter& backward) const {
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) backward.drop(*made);
}

namespace {

/// Messages of the ranks that share the product: they gather in the recipe's type, and reduce in 16
/// bits.
void add_messages(Op& op, const MegatronContext& context, const ParallelProduct& product,
                  const ProductCasts& casts) {
  if (context.policy.tensor == 1 || product.duplicated) return;
  const Expr wide = context.b * context.s * Expr(kWide);
  if (product.by_rows) {
    const MessageKind sum =
        context.sequence ? MessageKind::reduce_scatter : MessageKind::all_reduce;
    op.forward_messages = {{.kind = sum, .bytes = wide * product.out}};
    if (!context.sequence) return;
    op.backward_messages = {{.kind = MessageKind::all_gather, .bytes = casts.gathered_gradient()}};
    return;
  }
  // Beside the product that makes the weight's gradient, where that is wanted.
  const bool trained = op.adds_to_buffer.has_value();
  const auto beside = [trained](MessageKind kind, const Expr& bytes) {
    return Message{.kind = kind, .bytes = bytes, .asynchronous = trained};
  };
  if (!product.gathers) {
    // Gathered before the product, it is reduced behind it.
    if (product.returned && context.sequence) return;
    op.backward_messages = {beside(MessageKind::all_reduce, wide * product.in)};
    return;
  }
  op.forward_messages = {{.kind = MessageKind::all_gather, .bytes = casts.gathered_input()}};
  if (trained) op.backward_messages = {beside(MessageKind::all_gather, casts.gathered_input())};
  op.backward_messages.push_back(beside(MessageKind::reduce_scatter, wide * product.in));
}

}  // namespace

TensorId quantized_product(BlockBuilder& block, const MegatronContext& context,
                           const ParallelProduct& product, TensorId x) {
  const DType dtype = block.dtype_of(x);
  const Expr tokens = product.duplicated ? context.routed_tokens() : context.b * context.s;
  const bool scatters = product.by_rows && context.sequence;
  const TensorId weight = block.parameter({product.name, "weight"}, {product.out, product.in});
  const bool trained = block.needs_gradient(weight);
  ProductCasts casts(context,
                     {.name = product.name,
                      .weights = {weight},
                      .weight_elements = product.in * product.out,
                      .input = tokens * product.in,
                      .output = tokens * product.out,
                      .gathers_input = product.gathers,
                      .gathers_gradient = scatters,
                      .input_is_kept = product.input_is_kept,
                      .behind_norm = !product.by_rows && !product.duplicated && !context.norm_apart,
                      .trained = trained,
                      .returns_norm = product.returned.has_value(),
                      .gathered = product.returned && *product.returned != x});
  Op op;
  op.kind = OpKind::linear;
  op.name = product.name;
  op.inputs = {x, weight};
  op.workspace = Workspace::transformer_engine;
  if (trained) op.adds_to_buffer = weight;
  if (product.bias) op.inputs.push_back(block.parameter({product.name, "bias"}, {product.out}));
  const bool on_shards = scatters || product.duplicated;
  const TensorId out =
      block.make({product.name, "out"},
                 on_shards ? context.stream(product.out) : context.tokens(product.out), dtype);
  op.outputs = {out};
  casts.write_forward(block, x, op);
  if (scatters) {
    op.forward_scratch.push_back(
        scratch(block, {product.name, "partial sums"}, context.tokens(product.out), dtype));
  }
  add_messages(op, context, product, casts);
  BackwardWriter backward(op);
  casts.begin(block, backward);
  std::optional<BackwardWriter::Made> partial;
  if (product.gathers) {
    const TensorId like =
        scratch(block, {product.name, "partial gradient"}, context.tokens(product.in), dtype);
    partial = backward.make(like, dtype);
    backward.give(x, backward.make(x, dtype));
  } else {
    give_input_gradient(backward, context, product, x);
  }
  casts.end(backward);
  if (partial) backward.drop(*partial);
  if (product.bias) backward.give(op.inputs.back(), backward.make(op.inputs.back(), dtype));
  if (trained) add_unread_gradient(block, context, op);
  const Expr flops = Expr(2) * tokens * product.in * product.out;
  block.emit(std::move(op), {flops, trained ? Expr(2) * flops : flops});
  for (const TensorId kept : block.ops().back().outputs) {
    if (kept != out) block.set_needs_gradient(kept, false);
  }
  return out;
}

std::optional<Unavailable> quantized_refusal(const MegatronContext& context) {
  if (!context.policy.te_linears) return std::nullopt;
  const TeRecipeRow& row = row_of(context.policy.te_linears->recipe);
  const std::int64_t multiple = least_multiple(row);
  const LoweringPolicy& policy = context.policy;
  const auto refuse = [&](const std::string& what, std::int64_t size) {
    return Unavailable{"products in Transformer Engine's recipe " + std::string(row.word) +
                       " want " + what + " in multiples of " + std::to_string(multiple) + ", not " +
                       std::to_string(size)};
  };
  const std::int64_t tokens =
      policy.micro_batch * policy.seq_len / (context.sequence ? policy.tensor : 1);
  if (tokens % multiple != 0) return refuse("the tokens of a rank", tokens);
  if (context.decoder.hidden_size % multiple != 0)
    return refuse("channels", context.decoder.hidden_size);
  const std::int64_t of_dense = context.feed_forward.size / policy.tensor;
  if (of_dense % multiple != 0) return refuse("feed-forward channels of a rank", of_dense);
  if (!context.experts) return std::nullopt;
  const std::int64_t of_expert =
      context.experts->expert_size / (context.cuts_experts() ? policy.tensor : 1);
  if (of_expert % multiple != 0) return refuse("an expert's channels of a rank", of_expert);
  return std::nullopt;
}

}  // namespace memest
