// LlamaDecoderLayer: CausalSelfAttention with flash_attn_varlen_func, and MLP with GLUActivation.
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/fused_core.hpp"
#include "graph/lower/nanotron/nanotron.hpp"

namespace memest {
namespace {

constexpr DType kSums = DType::fp32;

/// The input of a product, which may lie by sequence.
struct LinearInput {
  TensorId x = 0;
  bool by_sequence = false;
};

/// F.linear of a view that rows cannot be seen in reads it through a copy.
bool reads_copy(const MegatronContext& context, const LinearInput& input) {
  return input.by_sequence && interleaves(context);
}

/// The row-parallel product in the mode ALL_REDUCE: an autograd node of PyTorch's, which keeps the
/// rows that it read.
TensorId summed_product(BlockBuilder& block, const MegatronContext& context,
                        const ParallelProduct& product, const LinearInput& input) {
  TensorId x = input.x;
  if (reads_copy(context, input)) {
    x = view_copied_back(block, {product.name, "turned"},
                         copy(block, {product.name, "rows"}, x, block.tensor(x).shape),
                         block.tensor(x).shape);
  }
  ParallelProduct part = product;
  part.by_rows = true;
  const TensorId out = parallel_product(block, context, part, x);
  if (context.policy.tensor > 1) {
    block.send_forward({.kind = MessageKind::all_reduce, .bytes = block.tensor(out).bytes()});
  }
  return out;
}

/// _RowLinearAsyncCommunication: the partial sums are reduce-scattered. In the backward the global
/// buffer "allgather2" takes all ranks' gradients beside the own part's product. Both passes read
/// a copy of what lies by sequence.
TensorId row_linear(BlockBuilder& block, const MegatronContext& context,
                    const ParallelProduct& product, const LinearInput& input) {
  if (!communicates_beside(context)) return summed_product(block, context, product, input);
  const TensorId x = input.x;
  const bool several = context.policy.tensor > 1;
  const bool copies = reads_copy(context, input);
  const DType dtype = block.dtype_of(x);
  const Shape whole = context.tokens(product.out);
  const TensorId weight = block.parameter({product.name, "weight"}, {product.out, product.in});
  Op op;
  op.kind = OpKind::linear;
  op.name = product.name;
  op.compute = dtype;
  op.inputs = {x, weight};
  op.saved = {x, weight};
  op.workspace = Workspace::cublas;
  if (copies) {
    op.forward_scratch.push_back(
        scratch(block, {product.name, "rows"}, context.tokens(product.in), dtype));
  }
  const TensorId sums = scratch(block, {product.name, "partial sums"}, whole, dtype);
  const Expr bytes = block.tensor(sums).bytes();
  if (several) {
    op.forward_scratch.push_back(sums);
    // MemoryBuffer has "allgather" and "allgather2": as large as one another, and counted as one.
    op.backward_buffer = Expr(2) * bytes;
    op.forward_messages = {{.kind = MessageKind::reduce_scatter, .bytes = bytes}};
    op.backward_messages = {
        {.kind = MessageKind::all_gather, .bytes = bytes, .asynchronous = true}};
  }
  const TensorId out = block.make({product.name, "out"}, context.stream(product.out), dtype);
  op.outputs = {out};
  BackwardWriter backward(op);
  const auto of_input = backward.make(x, dtype);
  const auto rows = copies ? backward.make(x, dtype) : of_input;
  const auto of_weight = backward.make(weight, dtype);
  if (copies) backward.drop(rows);
  backward.give(x, of_input);
  backward.give(weight, of_weight);
  const Expr flops = Expr(2) * context.b * context.s * product.in * product.out;
  block.emit(std::move(op), {flops, Expr(2) * flops});
  return out;
}

/// Queries, keys and values of a sequence after the other.
struct HeadParts {
  TensorId q = 0;
  TensorId k = 0;
  TensorId v = 0;
};

Shape by_sequence(const MegatronContext& context, const Expr& heads) {
  return {context.b, context.s, heads, context.d};
}

/// torch.split, then transpose(0, 1).contiguous() of each part.
HeadParts split_heads(BlockBuilder& block, const MegatronContext& context, TensorId product) {
  const auto part = [&](const Expr& heads) {
    return Shape{context.s, context.b, heads, context.d};
  };
  const std::vector<TensorId> parts = split(block, "qkv_proj", product,
                                            {{{"qkv_proj", "q"}, part(context.a)},
                                             {{"qkv_proj", "k"}, part(context.k)},
                                             {{"qkv_proj", "v"}, part(context.k)}});
  return {copy(block, {"q_heads"}, parts[0], by_sequence(context, context.a)),
          copy(block, {"k_heads"}, parts[1], by_sequence(context, context.k)),
          copy(block, {"v_heads"}, parts[2], by_sequence(context, context.k))};
}

/// HeadParts of equal number: view, permute(2, 1, 0, 3, 4).contiguous(), of which the three are
/// parts.
HeadParts permute_heads(BlockBuilder& block, const MegatronContext& context, TensorId product) {
  const Shape joined = {Expr(3), context.b, context.s, context.a, context.d};
  const TensorId turned = view_copied_back(block, {"qkv_proj", "turned"}, product, joined);
  const TensorId all = copy(block, {"qkv_heads"}, turned, joined);
  const Shape each = by_sequence(context, context.a);
  const std::vector<TensorId> parts =
      split(block, "qkv_heads", all,
            {{{"qkv_heads", "q"}, each}, {{"qkv_heads", "k"}, each}, {{"qkv_heads", "v"}, each}});
  return {parts[0], parts[1], parts[2]};
}

/// flash-attn's rotary embedding writes queries, and the keys beside values, in place, both ways.
TensorId rotated(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                 TensorId x) {
  if (!context.rotates()) return x;
  Op op;
  op.kind = OpKind::rotary;
  op.name = name;
  op.inputs = {x};
  const TensorId out = block.alias({name, "turned"}, x, block.tensor(x).shape);
  op.outputs = {out};
  op.backward.bytes += Expr(2) * block.tensor(x).bytes();
  BackwardWriter(op).hand_on(x, Reach::through_view);
  block.emit(std::move(op));
  return out;
}

/// torch.cat([k, v]), permute(1, 2, 0, 3, 4).contiguous(): keys beside values, of which the kernel
/// is given parts.
HeadParts join_keys(BlockBuilder& block, const MegatronContext& context, const HeadParts& heads) {
  const Shape joined = {Expr(2), context.b, context.s, context.k, context.d};
  const TensorId all = concatenate(block, {"kv_heads", "joined"}, {{heads.k, heads.v}}, joined);
  const Shape beside = {context.b, context.s, Expr(2), context.k, context.d};
  const TensorId pairs =
      rotated(block, context, "k_rotary", copy(block, {"kv_heads"}, all, beside));
  const Shape each = by_sequence(context, context.k);
  const std::vector<TensorId> parts =
      split(block, "kv_heads", pairs, {{{"kv_heads", "k"}, each}, {{"kv_heads", "v"}, each}});
  return {heads.q, parts[0], parts[1]};
}

/// The bounds of the sequences, of queries and of keys, anew in every layer (CoreAttention).
TensorId bounds(BlockBuilder& block, const MegatronContext& context, std::string_view name) {
  return compute(block, OpKind::mask, {},
                 {{"attention", name}, {context.b + Expr(1)}, DType::int32});
}

/// FlashAttnVarlenFunc: keeps what it reads, the output, its log-sum-exp and the state of the
/// random numbers.
TensorId attention_core(BlockBuilder& block, const MegatronContext& context,
                        const HeadParts& heads) {
  const PartOfLayer part(block, &LayerParts::attention_core);
  const Dimensions dims = context.dimensions();
  Op op;
  op.kind = OpKind::attention;
  op.name = "attention";
  op.compute = block.dtype_of(heads.q);
  op.causal = true;
  op.inputs = {heads.q, heads.k, heads.v, bounds(block, context, "bounds of queries"),
               bounds(block, context, "bounds of keys")};
  const TensorId out = block.make({"attention"}, by_sequence(context, context.a), op.compute);
  op.outputs = {out,
                block.make({"attention", "log-sum-exp"}, {dims.a, dims.b, dims.s}, DType::fp32),
                block.make({"attention", "random state"}, {Expr(2)}, DType::int64)};
  op.saved = op.inputs;
  op.saved.insert(op.saved.end(), op.outputs.begin(), op.outputs.end());
  // mha_varlen_bwd: softmax_d and dq_accum have total_q + 128·b rows.
  FusedCore core{dims, context.attention.head_dim, op.compute,
                 context.attention.kv_heads < context.attention.heads};
  core.rows = dims.s + Expr(128);
  BackwardWriter backward(op);
  const auto of_q = backward.make(heads.q, op.compute);
  const auto of_k = backward.make(heads.k, op.compute);
  const auto of_v = backward.make(heads.v, op.compute);
  flash_backward(block, core, backward);
  backward.give(heads.q, of_q, Reach::through_view);
  backward.give(heads.k, of_k, Reach::through_view);
  backward.give(heads.v, of_v, Reach::through_view);
  const Expr product = Expr(2) * dims.b * dims.a * dims.s * dims.s * dims.d;
  block.emit(std::move(op), {Expr(2) * product, Expr(5) * product});
  return out;
}

/// Names of its forward: the product, and queries and pairs in the places of what they were.
TensorId attention_of(BlockBuilder& block, const MegatronContext& context, TensorId x) {
  Frame call(block);
  const Expr width = (context.a + Expr(2) * context.k) * context.d;
  const TensorId product =
      call.local(column_linear(block, context, {"qkv_proj", context.h, width}, x));
  const bool grouped = context.attention.kv_heads < context.attention.heads;
  HeadParts heads =
      grouped ? split_heads(block, context, product) : permute_heads(block, context, product);
  heads = join_keys(block, context, heads);
  heads.q = rotated(block, context, "q_rotary", heads.q);
  const TensorId mixed = call.local(attention_core(block, context, heads));
  const Expr joined = context.a * context.d;
  const auto join = interleaves(context) ? view_copied_back : view;
  const TensorId rows = join(block, {"attention", "joined"}, mixed, context.tokens(joined));
  return row_linear(block, context, {"o_proj", joined, context.h}, {rows, true});
}

/// GLUActivation: act(gate) * up, PyTorch's own nodes, which keep the product's parts, act(gate)
/// and the result.
TensorId feed_forward_of(BlockBuilder& block, const MegatronContext& context, TensorId x) {
  const PartOfLayer inside(block, &LayerParts::feed_forward);
  Frame call(block);
  const TensorId merged =
      call.local(column_linear(block, context, {"up_proj", context.h, Expr(2) * context.f}, x));
  const Shape half = context.tokens(context.f);
  const std::vector<TensorId> parts =
      split(block, "up_proj", merged, {{{"up_proj", "gate"}, half}, {{"up_proj", "up"}, half}});
  const TensorId gate = activation(
      block, {.name = "activation", .function = context.feed_forward.activation}, parts[0]);
  const TensorId hidden = multiply(block, {"gate_times_up"}, gate, parts[1]);
  return row_linear(block, context, {"down_proj", context.f, context.h}, {hidden});
}

}  // namespace

bool communicates_beside(const MegatronContext& context) {
  return context.policy.tensor == 1 || context.sequence;
}

bool interleaves(const MegatronContext& context) { return context.policy.micro_batch > 1; }

TensorId triton_norm(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                     TensorId x) {
  const Shape shape = block.tensor(x).shape;
  Shape rows = shape;
  rows.back() = Expr(1);
  const DType dtype = block.dtype_of(x);
  const TensorId out = block.make({name}, shape, dtype);
  const TensorId root = block.make({name, "reciprocal rms"}, rows, kSums);
  const TensorId gain = block.parameter({name, "weight"}, {context.h});
  Op op;
  op.kind = OpKind::rmsnorm;
  op.name = name;
  op.inputs = {x, gain};
  op.outputs = {out, root};
  op.saved = {x, gain, root};
  // _layer_norm_bwd: _dw has a row for every multiprocessor, 132 of 4096 are 2.2 MB.
  const Shape partial = {Expr(context.policy.multiprocessors), shape.back()};
  BackwardWriter backward(op);
  const auto of_x = backward.make(x, dtype);
  const auto sums = backward.make(scratch(block, {name, "partial sums"}, partial, kSums), kSums);
  const auto wide = backward.make(gain, kSums);
  backward.launch(sum_between(partial, {shape.back()}, kSums));
  const auto of_gain = backward.make(gain, dtype);
  backward.drop(wide);
  backward.drop(sums);
  backward.give(gain, of_gain);
  backward.give(x, of_x);
  block.emit(std::move(op));
  return out;
}

TensorId column_linear(BlockBuilder& block, const MegatronContext& context, ParallelProduct product,
                       TensorId x) {
  product.gathers = context.sequence;
  const TensorId out = parallel_product(block, context, product, x);
  // DifferentiableIdentity sums the gradient behind the products.
  if (!communicates_beside(context)) {
    for (Message& message : block.ops().back().backward_messages) message.asynchronous = false;
  }
  return out;
}

Block nanotron_layer(const MegatronContext& context) {
  BlockBuilder block("layer", context.precision());
  const TensorId x = block.block_input(context.stream(), context.policy.weights);
  TensorId y = triton_norm(block, context, "attention_norm", x);
  const TensorId mixed = attention_of(block, context, y);
  // The dictionary `output` names it until the layer returns.
  block.hold_to_end(mixed);
  y = add(block, {"attention_residual"}, mixed, x);
  const TensorId residual = y;
  y = triton_norm(block, context, "feed_forward_norm", y);
  y = feed_forward_of(block, context, y);
  y = add(block, {"feed_forward_residual"}, y, residual);
  return std::move(block).take(y, true);
}

}  // namespace memest
