#include "graph/lower/megatron/megatron_quantized.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace memest {
namespace {

constexpr std::int64_t kWide = 2;  // bytes of bf16

/// Both operands along rows (forward), or one of the gradient's products, must be multiples
/// (pytorch/utils.py, assert_dim_for_fp8_exec; MXFP8Quantizer, NVFP4Quantizer, is_quantizable).
std::int64_t least_multiple(const TeRecipeRow& row) {
  constexpr std::int64_t kMultiple = 16;
  return std::max(kMultiple, row.block);
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

/// Weights of 16 bits are cast in a step's first micro-batch alone (get_weight_workspace with
/// is_first_microbatch). Primary ones in 8 bits get transposes, or columns, once they are gathered
/// (post_all_gather_processing); MXFP8's are cast from what was gathered in 16.
Expr ProductCasts::cast_of_weight() const {
  const Expr& elements = product_.weight_elements;
  const std::int64_t copies = te_copies(linears_.recipe, context_.policy.capability);
  const bool in_eight = linears_.param_gather && linears_.recipe != TeRecipe::mxfp8;
  if (in_eight) return Expr(copies - 1) * Expr(2) * one(elements);
  // A weight is not transformed: its columns are read with its rows.
  const std::int64_t reads = linears_.recipe == TeRecipe::nvfp4 ? row_.reads - 1 : row_.reads;
  return Expr(reads * kWide) * elements + both(elements);
}

/// save_original_input of linear_proj (transformer/attention.py, from Transformer Engine 2.6 on):
/// attention has kept its output already.
bool ProductCasts::keeps_given() const {
  return product_.of_attention && linears_.recipe != TeRecipe::delayed &&
         context_.policy.implementation.transformer_engine != TeRelease::te_2_2;
}

/// "All-gather is not supported with FP8 column-wise data": of tensors with one scale.
bool ProductCasts::casts_columns_of_input() const {
  return !keeps_given() && !(product_.gathers_input && scales_tensors(linears_.recipe));
}

Expr ProductCasts::gathered_gradient() const {
  const Expr along = one(product_.output);
  return scales_tensors(linears_.recipe) ? along : Expr(2) * along;
}

void ProductCasts::write_forward(BlockBuilder& block, TensorId x, Op& op) const {
  const auto bytes = [&](std::string_view name, const Expr& count) {
    return scratch(block, {product_.name, name}, {count}, DType::uint8);
  };
  op.compute = row_.operand;
  // csrc/extensions/gemm.cpp: from 10.0 on blockwise tensors are multiplied as MXFP8's.
  const bool as_mxfp8 =
      linears_.recipe == TeRecipe::blockwise && context_.policy.capability >= kBlackwell;
  op.casts.scaling = as_mxfp8 ? row_of(TeRecipe::mxfp8).scaling : row_.scaling;
  const Expr given = own(product_.input, product_.gathers_input);
  op.casts.forward = product_.behind_norm ? cast_behind_norm(given, casts_columns_of_input())
                                          : cast(given, casts_columns_of_input());
  op.casts.in_a_step = cast_of_weight();
  const Expr& output = product_.output;
  const bool columns_later = product_.gathers_gradient && scales_tensors(linears_.recipe);
  op.casts.backward = cast(own(output, product_.gathers_gradient), !columns_later);
  if (columns_later) op.casts.backward += transposed(output);
  if (keeps_given()) {
    // linear.py, backward: columns alone, but of tensors with one scale, whose rows they are made
    // of.
    op.casts.backward += cast(product_.input, scales_tensors(linears_.recipe));
  } else if (product_.gathers_input) {
    op.casts.backward += transposed(product_.input);
  }
  op.saved = product_.weights;
  if (keeps_given()) {
    op.saved.push_back(x);
  } else {
    // The rows, of which the columns take the place.
    if (casts_columns_of_input() && te_copies(linears_.recipe, context_.policy.capability) > 1) {
      op.forward_scratch.push_back(bytes("rows of the input", one(given)));
    }
    const TensorId kept =
        block.make({product_.name, "quantized input"}, {one(given)}, DType::uint8);
    op.outputs.push_back(kept);
    op.saved.push_back(kept);
  }
  if (product_.gathers_input) {
    op.forward_scratch.push_back(bytes("gathered input", one(product_.input)));
  }
}

void ProductCasts::begin(BlockBuilder& block, BackwardWriter& backward) {
  const auto make = [&](std::string_view name, const Expr& count) {
    const TensorId like = scratch(block, {product_.name, name}, {count}, DType::uint8);
    made_.push_back(backward.make(like, DType::uint8));
  };
  make("quantized gradient", both(product_.output));
  if (!product_.gathers_input && !keeps_given()) return;
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
  const auto beside = [](MessageKind kind, const Expr& bytes) {
    return Message{.kind = kind, .bytes = bytes, .asynchronous = true};
  };
  if (!product.gathers) {
    op.backward_messages = {beside(MessageKind::all_reduce, wide * product.in)};
    return;
  }
  op.forward_messages = {{.kind = MessageKind::all_gather, .bytes = casts.gathered_input()}};
  op.backward_messages = {beside(MessageKind::all_gather, casts.gathered_input()),
                          beside(MessageKind::reduce_scatter, wide * product.in)};
}

}  // namespace

TensorId quantized_product(BlockBuilder& block, const MegatronContext& context,
                           const ParallelProduct& product, TensorId x) {
  const DType dtype = block.dtype_of(x);
  const Expr tokens = product.duplicated ? context.routed_tokens() : context.b * context.s;
  const bool scatters = product.by_rows && context.sequence;
  const TensorId weight = block.parameter({product.name, "weight"}, {product.out, product.in});
  ProductCasts casts(context, {.name = product.name,
                               .weights = {weight},
                               .weight_elements = product.in * product.out,
                               .input = tokens * product.in,
                               .output = tokens * product.out,
                               .gathers_input = product.gathers,
                               .gathers_gradient = scatters,
                               .of_attention = product.name == kAttentionOutput,
                               .behind_norm = !product.by_rows && !product.duplicated});
  Op op;
  op.kind = OpKind::linear;
  op.name = product.name;
  op.inputs = {x, weight};
  op.workspace = Workspace::transformer_engine;
  op.adds_to_buffer = weight;
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
  if (product.gathers) {
    const TensorId like =
        scratch(block, {product.name, "partial gradient"}, context.tokens(product.in), dtype);
    const auto partial = backward.make(like, dtype);
    backward.give(x, backward.make(x, dtype));
    casts.end(backward);
    backward.drop(partial);
  } else {
    backward.give(x, backward.make(x, dtype));
    casts.end(backward);
  }
  if (product.bias) backward.give(op.inputs.back(), backward.make(op.inputs.back(), dtype));
  add_unread_gradient(block, context, op);
  const Expr flops = Expr(2) * tokens * product.in * product.out;
  block.emit(std::move(op), {flops, Expr(2) * flops});
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
