// torchtitan's tensor parallelism: the collectives that DTensor puts around products, and what it
// computes on a shard of the vocabulary (PyTorch 2.11, torch/distributed/tensor/parallel/loss.py
// and _ops/_embedding_ops.py). A collective along any but the first dimension works on a copy that
// is cut along the first.
#include "graph/lower/ops/tensor_parallel.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memest/graph/kernel_scratch.hpp"

namespace memest {
namespace {

/// A tensor without gradient that depends on `inputs`.
TensorId computed(BlockBuilder& block, const Made& made, const std::vector<TensorId>& inputs = {}) {
  return compute(block, OpKind::copy, inputs, made);
}

/// The ranks' parts of `x`, the last op's result, become one in place.
TensorId all_reduced(BlockBuilder& block, TensorId x) {
  block.send_forward({.kind = MessageKind::all_reduce, .bytes = block.tensor(x).bytes()});
  return x;
}

/// Which tokens, or targets, lie outside this rank's shard of the vocabulary.
TensorId outside_shard(BlockBuilder& block, std::string_view name, const Shape& tokens) {
  // _MaskPartial._mask_tensor: (tensor < offset) | (tensor >= offset + size).
  const TensorId below = computed(block, {{name, "below the shard"}, tokens, DType::boolean});
  const TensorId above = computed(block, {{name, "above the shard"}, tokens, DType::boolean});
  return computed(block, {{name, "outside the shard"}, tokens, DType::boolean}, {below, above});
}

/// Tokens, or targets, counted from the shard's first row, and 0 outside.
TensorId masked_in_shard(BlockBuilder& block, std::string_view name, const Shape& tokens,
                         TensorId outside) {
  // masked = tensor.clone() - offset; masked[mask] = 0.
  const TensorId shifted = computed(block, {{name, "shifted"}, tokens, DType::int64});
  return computed(block, {{name, "masked"}, tokens, DType::int64}, {shifted, outside});
}

/// Autograd's part of the loss over shards: exp(x) once, the targets' elements put in, times the
/// incoming gradient.
void write_loss_backward(Op& op, TensorId scores, TensorId targets) {
  BackwardWriter backward(op);
  const TensorId one = op.outputs.front();
  const auto tokens = [&](DType dtype) { return backward.make(targets, dtype); };
  const auto number = [&](DType dtype) { return backward.make(one, dtype); };
  // loss.py: _nll_loss_and_log_softmax_backward, line by line: safe_target, zeros_like(x), the
  // masked targets, grad_update, arange_1d, where, (grad_input + exp(x)) · grad_output.
  const auto counted = tokens(DType::boolean);
  const auto zero = number(DType::int64);
  const auto safe = tokens(DType::int64);
  backward.drop(zero);
  backward.drop(counted);
  const auto zeros = backward.make(scores, DType::fp32);
  const auto below = tokens(DType::boolean);
  const auto above = tokens(DType::boolean);
  const auto outside = tokens(DType::boolean);
  backward.drop(below);
  backward.drop(above);
  const auto shifted = tokens(DType::int64);
  const auto masked = tokens(DType::int64);
  backward.drop(shifted);
  const auto inside = tokens(DType::fp32);
  const auto update = tokens(DType::fp32);
  backward.drop(inside);
  const auto rows = tokens(DType::int64);
  const auto chosen = tokens(DType::boolean);
  const auto nothing = number(DType::fp32);
  const auto incoming = tokens(DType::fp32);
  backward.drop(nothing);
  backward.drop(chosen);
  const auto exponent = backward.make(scores, DType::fp32);
  const auto sum = backward.make(scores, DType::fp32);
  backward.drop(exponent);
  const auto gradient = backward.make(scores, DType::fp32);
  for (const auto gone : {sum, incoming, safe, zeros, outside, masked, update, rows}) {
    backward.drop(gone);
  }
  backward.give(scores, gradient);
}

/// The target's element of every row, summed over the ranks, or 0 where the target does not count.
TensorId likelihoods(BlockBuilder& block, const Shape& tokens, TensorId summed) {
  Frame frame(block);
  // _nll_loss_forward: torch.where(target != ignore_index, -result, 0).
  const TensorId negated =
      computed(block, {{"nll_loss", "negated"}, tokens, DType::fp32}, {summed});
  const TensorId chosen = computed(block, {{"nll_loss", "chosen"}, tokens, DType::boolean});
  const TensorId nothing = computed(block, {{"nll_loss", "nothing"}, {Expr(1)}, DType::fp32});
  for (const TensorId local : {nothing, chosen, negated}) frame.local(local);
  return computed(block, {{"nll_loss", "by target"}, tokens, DType::fp32},
                  {negated, chosen, nothing});
}

/// How many targets count, in fp32.
TensorId total_weight(BlockBuilder& block, const Shape& tokens) {
  const TensorId number = [&] {
    Frame frame(block);
    const TensorId flags = computed(block, {{"nll_loss", "counted flags"}, tokens, DType::boolean});
    const TensorId count = computed(block, {{"nll_loss", "count"}, {Expr(1)}, DType::int64});
    // total_weight = (target != ignore_index).sum().to(x)
    const TensorId wide =
        computed(block, {{"nll_loss", "flags as numbers"}, tokens, DType::int64}, {flags});
    for (const TensorId local : {wide, flags}) frame.local(local);
    return count;
  }();
  return computed(block, {{"nll_loss", "total weight"}, {Expr(1)}, DType::fp32}, {number});
}

/// The whole sequence from its shards `x`, whose backward is left to be written.
Op gathering(BlockBuilder& block, const DecoderContext& context, std::string_view name,
             TensorId x) {
  const DType dtype = block.dtype_of(x);
  Shape shape = context.dims.rows();
  shape.push_back(context.dims.h);
  Op op;
  op.kind = OpKind::copy;
  op.name = name;
  op.inputs = {x};
  // all_gather_tensor gathers along the first dimension; _maybe_view_chunk_cat then cuts and joins
  // along the sequence, and is a view where b = 1.
  // The shards of a single sequence lie as the whole does.
  if (context.policy.micro_batch > 1) {
    op.forward_scratch = {scratch(block, {name, "shards"}, shape, dtype)};
  }
  op.outputs = {block.make({name, "gathered"}, shape, dtype)};
  Tensor& out = block.tensor(op.outputs.front());
  out.distributed = true;
  op.forward_messages = {{.kind = MessageKind::all_gather, .bytes = out.bytes()}};
  return op;
}

}  // namespace

TensorId gathered(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                  TensorId x) {
  if (!context.shards_tensors()) return x;
  Op op = gathering(block, context, name, x);
  const TensorId out = op.outputs.front();
  scatter_gradient(block, op, out, x);
  block.emit(std::move(op));
  return out;
}

TensorId gathered_alike(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                        TensorId x) {
  if (!context.shards_tensors()) return x;
  Op op = gathering(block, context, name, x);
  const TensorId out = op.outputs.front();
  // Replicate to Shard(1) is a copy of the rank's own part.
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

void scatter_gradient(const BlockBuilder& block, Op& op, TensorId gathered, TensorId shard) {
  const DType dtype = block.dtype_of(shard);
  BackwardWriter backward(op);
  const auto cut = backward.make(gathered, dtype);
  const auto own = backward.make(shard, dtype);
  backward.drop(cut);
  backward.give(shard, own);
  op.backward_messages = {
      {.kind = MessageKind::reduce_scatter, .bytes = block.tensor(gathered).bytes()}};
}

TensorId summed_back(BlockBuilder& block, std::string_view name, TensorId x) {
  const TensorId out = block.alias({name, "on all ranks"}, x, block.tensor(x).shape);
  Op op;
  op.kind = OpKind::view;
  op.name = name;
  op.inputs = {x};
  op.outputs = {out};
  // Functional collectives answer a tensor of their own.
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  block.send_backward({.kind = MessageKind::all_reduce, .bytes = block.tensor(x).bytes()});
  return out;
}

TensorId cut_for_ranks(BlockBuilder& block, Frame& frame, std::string_view name, TensorId x) {
  // reduce_scatter_tensor: torch.cat(torch.chunk(self, group_size, dim=1)), before it sends
  // anything.
  const TensorId cut = block.make({name, "cut"}, block.tensor(x).shape, block.dtype_of(x));
  for (const TensorId local : {cut, x}) frame.local(local);
  Op op;
  op.kind = OpKind::concatenate;
  op.name = name;
  op.inputs = {x};
  op.outputs = {cut};
  BackwardWriter(op).hand_on(x);
  block.emit(std::move(op));
  return cut;
}

Op scattering(BlockBuilder& block, const DecoderContext& context, std::string_view name,
              TensorId cut) {
  Shape shape = context.dims.stream();
  shape.push_back(context.dims.h);
  Op op;
  op.kind = OpKind::copy;
  op.name = name;
  op.inputs = {cut};
  op.outputs = {block.make({name, "own shard"}, std::move(shape), block.dtype_of(cut))};
  op.forward_messages = {{.kind = MessageKind::reduce_scatter, .bytes = block.tensor(cut).bytes()}};
  return op;
}

TensorId scattered(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                   TensorId x) {
  if (!context.shards_tensors()) return x;
  const DType dtype = block.dtype_of(x);
  Frame frame(block);
  const TensorId cut = cut_for_ranks(block, frame, name, x);
  Op op = scattering(block, context, name, cut);
  const TensorId out = op.outputs.front();
  BackwardWriter backward(op);
  std::optional<BackwardWriter::Made> shards;
  if (context.policy.micro_batch > 1) shards = backward.make(x, dtype);
  const auto whole = backward.make(x, dtype);
  if (shards) backward.drop(*shards);
  backward.give(cut, whole);
  op.backward_messages = {{.kind = MessageKind::all_gather, .bytes = block.tensor(x).bytes()}};
  block.emit(std::move(op));
  return out;
}

TensorId gathered_logits(BlockBuilder& block, const DecoderContext& context, TensorId x) {
  // parallelize.py: apply_tp: ColwiseParallel(output_layouts=Shard(-1) if loss_parallel else
  // Replicate()).
  if (!context.shards_tensors() || context.policy.implementation.loss_parallel) return x;
  const DType dtype = block.dtype_of(x);
  Shape shape = context.dims.rows();
  shape.emplace_back(Symbol::vocab_size);
  Op op;
  op.kind = OpKind::copy;
  op.name = "gathered_logits";
  op.inputs = {x};
  op.forward_scratch = {scratch(block, {op.name, "shards"}, shape, dtype)};
  const TensorId out = block.make({op.name}, std::move(shape), dtype);
  op.outputs = {out};
  op.forward_messages = {{.kind = MessageKind::all_gather, .bytes = block.tensor(out).bytes()}};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, dtype));
  block.emit(std::move(op));
  return out;
}

TensorId look_up_in_shard(BlockBuilder& block, const DecoderContext& context, const LookUp& part) {
  constexpr std::string_view kName = "embedding";
  const Dimensions& dims = context.dims;
  const DType dtype = block.dtype_of(part.table);
  Frame frame(block);
  const TensorId outside = frame.local(outside_shard(block, kName, dims.rows()));
  const TensorId masked = masked_in_shard(block, kName, dims.rows(), outside);
  const Shape whole = {Symbol::vocab_size, dims.h};
  // embedding_dense_backward_strategy has no strategy by rows: every rank sums the whole table's
  // gradient. 128 256 · 4096 · 2 B = 1 GiB.
  const TensorId table = scratch(block, {kName, "whole gradient"}, whole, dtype);
  const TensorId out = block.make({kName}, {dims.b, dims.s, dims.h}, dtype);
  Op op;
  op.kind = OpKind::embedding;
  op.name = kName;
  op.inputs = {part.indices, part.table, masked};
  op.outputs = {out};
  op.saved = {part.indices};
  write_table_gradient(block, part, table, op);
  block.tensor(part.table).gradient_is_relaid = true;
  block.emit(std::move(op));
  return out;
}

TensorId log_softmax_of_shards(BlockBuilder& block, const DecoderContext& context,
                               TensorId scores) {
  constexpr std::string_view kName = "log_softmax";
  const Shape shape = block.tensor(scores).shape;
  const Shape rows = context.dims.rows();
  const auto row = [&](std::string_view name, const std::vector<TensorId>& inputs) {
    return computed(block, {{kName, name}, rows, DType::fp32}, inputs);
  };
  Frame frame(block);
  // loss.py: _log_softmax: amax, all_reduce(MAX), shifted, sum(exp), all_reduce(SUM), log.
  const TensorId own_largest = row("largest of the shard", {});
  const TensorId largest = all_reduced(block, row("largest", {own_largest}));
  const TensorId shifted = computed(block, {{kName, "shifted"}, shape, DType::fp32}, {largest});
  const TensorId powers = computed(block, {{kName, "powers"}, shape, DType::fp32}, {shifted});
  const TensorId own_sum = row("sum of the shard", {powers});
  const TensorId sum = all_reduced(block, row("sum", {own_sum}));
  const TensorId logarithm = row("logarithm", {sum});
  for (const TensorId local : {shifted, largest, sum, logarithm}) frame.local(local);
  const TensorId out = block.make({kName}, shape, DType::fp32);
  Op op;
  op.kind = OpKind::softmax;
  op.name = kName;
  op.inputs = {scores, shifted, logarithm};
  op.outputs = {out};
  op.saved = {out};
  BackwardWriter(op).hand_on(scores);
  block.emit(std::move(op));
  return out;
}

TensorId likelihood_of_shards(BlockBuilder& block, const DecoderContext& context, TensorId scores,
                              TensorId targets) {
  constexpr std::string_view kName = "nll_loss";
  const Shape tokens = context.dims.rows();
  Frame frame(block);
  // _nll_loss_forward: safe_target = torch.where(target != ignore_index, target, 0).
  const TensorId safe = [&] {
    Frame naming(block);
    const TensorId counted = computed(block, {{kName, "counted"}, tokens, DType::boolean});
    const TensorId zero = computed(block, {{kName, "zero"}, {Expr(1)}, DType::int64});
    for (const TensorId local : {zero, counted}) naming.local(local);
    return computed(block, {{kName, "safe targets"}, tokens, DType::int64}, {counted, zero});
  }();
  const TensorId outside = outside_shard(block, kName, tokens);
  const TensorId masked = masked_in_shard(block, kName, tokens, outside);
  const TensorId chosen =
      computed(block, {{kName, "target of the shard"}, tokens, DType::fp32}, {masked, outside});
  const TensorId summed =
      all_reduced(block, computed(block, {{kName, "target"}, tokens, DType::fp32}, {chosen}));
  const TensorId by_target = likelihoods(block, tokens, summed);
  const TensorId weight = total_weight(block, tokens);
  for (const TensorId local : {safe, masked, chosen, summed}) frame.local(local);
  const TensorId loss = block.make({kName}, {Expr(1)}, DType::fp32);
  Op op;
  op.kind = OpKind::cross_entropy;
  op.name = kName;
  op.inputs = {scores, targets, weight, by_target};
  op.outputs = {loss};
  op.saved = {scores, targets, weight};
  write_loss_backward(op, scores, targets);
  block.emit(std::move(op));
  return loss;
}

/// A fused kernel between each two sums over the ranks. The last makes what the gradient is but for
/// the incoming one, in fp32, from a tensor with ones at the targets; the logits are not kept.
TensorId compiled_loss_of_shards(BlockBuilder& block, const DecoderContext& context,
                                 TensorId logits, TensorId targets) {
  constexpr std::string_view kSoftmax = "log_softmax";
  constexpr std::string_view kName = "nll_loss";
  const Shape shape = block.tensor(logits).shape;
  const Shape rows = context.dims.rows();
  const auto row = [&](Place place, const std::vector<TensorId>& inputs) {
    return all_reduced(block, computed(block, {place, rows, DType::fp32}, inputs));
  };
  const TensorId largest = row({kSoftmax, "largest"}, {logits});
  const TensorId sum = row({kSoftmax, "sum"}, {logits, largest});
  const TensorId ones = computed(block, {{kName, "ones at targets"}, shape, DType::fp32});
  const TensorId counted = computed(block, {{kName, "counted"}, rows, DType::boolean}, {targets});
  // Its sum is the loss: it ends before the difference is made.
  row({kName, "by target"}, {targets, largest, sum});
  const TensorId loss = block.make({kName}, {Expr(1)}, DType::fp32);
  const TensorId difference = block.make({kName, "difference"}, shape, DType::fp32);
  Op op;
  op.kind = OpKind::cross_entropy;
  op.name = kName;
  op.inputs = {logits, ones, largest, sum, counted};
  op.outputs = {loss, difference};
  op.saved = {difference, counted};
  BackwardWriter backward(op);
  backward.give(logits, backward.make(logits, block.dtype_of(logits)));
  block.emit(std::move(op));
  return loss;
}

}  // namespace memest
