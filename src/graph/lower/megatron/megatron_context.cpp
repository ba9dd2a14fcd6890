// Attention over a sequence that lies on several ranks, by Transformer Engine 2.11
// (attention/dot_product_attention/context_parallel.py). Each exchange is one autograd function; a
// rank's part of the sequence is s, and all have as many tokens.
#include <array>
#include <utility>
#include <vector>

#include "graph/lower/attention/fused_core.hpp"
#include "graph/lower/megatron/megatron.hpp"

namespace memest {
namespace {

/// One function being written: its forward makes and keeps tensors, its backward gradients.
class ContextAttention {
 public:
  using Made = BackwardWriter::Made;

  ContextAttention(BlockBuilder& block, const MegatronContext& context,
                   const std::vector<TensorId>& heads)
      : block_(block),
        context_(context),
        heads_(heads),
        dtype_(block.dtype_of(heads.front())),
        out_(block.make({"attention"}, mixed_shape(), dtype_)) {
    op_.kind = OpKind::attention;
    op_.name = "attention";
    op_.compute = dtype_;
    op_.causal = true;
    op_.inputs = heads;
    op_.outputs = {out_};
  }

  /// AttnFuncWithCPAndKVP2P: all ranks' keys and values are received and held, and of each step the
  /// output; what is kept is the queries, the keys and values that came last, the output and its
  /// log-sum-exp.
  TensorId ring() {
    const Dimensions dims = context_.dimensions();
    // Keys and values lie flat, one behind the other (k_numel), of one width or of two.
    Shape flat = block_.tensor(heads_[1]).shape;
    flat.back() += context_.of_values();
    const TensorId pair = keep("keys and values", std::move(flat), dtype_);
    keep_statistics(dims, context_.c);
    op_.saved.insert(op_.saved.end(), {heads_[0], out_});
    const std::int64_t steps = context_.policy.context;
    op_.kernels = steps;
    pass_round(op_.forward_messages, block_.tensor(pair).bytes());
    pass_round(op_.backward_messages, Expr(2) * block_.tensor(pair).bytes());
    for (std::int64_t step = 1; step < steps; ++step) op_.forward_scratch.push_back(like(pair));
    for (std::int64_t step = 0; step < steps; ++step) op_.forward_scratch.push_back(like(out_));
    // The correction of what was summed so far, in fp32.
    op_.forward_scratch.push_back(like(out_, DType::fp32));
    BackwardWriter backward(op_);
    const std::array buffers = {backward.make(pair, dtype_), backward.make(pair, dtype_),
                                backward.make(pair, dtype_), backward.make(pair, dtype_)};
    const Made of_queries = backward.make(heads_[0], dtype_);
    const std::vector<Made> of_step = make_like(backward, heads_);
    write_kernel(dims, backward);
    drop(backward, of_step);
    const std::vector<Made> rest = make_like(backward, {heads_[1], heads_[2]});
    for (const Made buffer : buffers) backward.drop(buffer);
    give(backward, {of_queries, rest[0], rest[1]});
    return emit();
  }

  /// AttnFuncWithCPAndQKVOA2A: the whole sequence of a part of the heads, written out in order on
  /// either side of the exchange, which is kept with its output.
  TensorId all_to_all() {
    Dimensions dims = context_.dimensions();
    dims.s = dims.s * context_.c;
    for (Expr* heads : {&dims.a, &dims.k}) *heads = *heads / context_.c;
    std::vector<TensorId> whole;
    for (const TensorId one : heads_) {
      const Expr& count = one == heads_[0] ? dims.a : dims.k;
      whole.push_back(keep("exchanged", {dims.s, dims.b, count, dims.d}, dtype_));
    }
    const TensorId mixed = keep("exchanged output", {dims.s, dims.b, dims.a, dims.d}, dtype_);
    keep_statistics(dims, Expr(1));
    op_.parts = context_.policy.context;
    for (const TensorId one : {heads_[0], heads_[1], heads_[2], out_}) exchange(one);
    op_.forward_scratch = {like(out_), like(out_)};
    BackwardWriter backward(op_);
    const std::vector<Made> transposed = make_like(backward, {mixed, mixed});
    const Made gradient = backward.make(mixed, dtype_);
    drop(backward, transposed);
    const std::vector<Made> of_whole = make_like(backward, whole);
    write_kernel(dims, backward);
    const std::vector<Made> sent = make_like(backward, whole);
    const std::vector<Made> received = make_like(backward, whole);
    const std::vector<Made> given = make_like(backward, heads_);
    for (const auto& made : {received, sent, of_whole}) drop(backward, made);
    backward.drop(gradient);
    give(backward, given);
    return emit();
  }

 private:
  /// The queries', of as many channels as values have.
  [[nodiscard]] Shape mixed_shape() const {
    Shape shape = block_.tensor(heads_.front()).shape;
    shape.back() = context_.of_values();
    return shape;
  }

  TensorId keep(std::string_view name, Shape shape, DType dtype) {
    op_.outputs.push_back(block_.make({"attention", name}, std::move(shape), dtype));
    op_.saved.push_back(op_.outputs.back());
    return op_.outputs.back();
  }

  void keep_statistics(const Dimensions& dims, const Expr& kernels) {
    keep("log-sum-exp", {dims.b, dims.a, dims.s}, DType::fp32);
    keep("random states", {kernels, Expr(2)}, DType::int64);
  }

  /// While a step's kernel runs, the next one's keys and values come; in the backward the gradients
  /// of the last one's with them. Every rank has an early and a late piece of the sequence, so that
  /// no step but the first is causal and each has the work of that one.
  void pass_round(std::vector<Message>& messages, const Expr& bytes) const {
    messages.push_back({.kind = MessageKind::send,
                        .group = RankGroup::context,
                        .bytes = bytes,
                        .asynchronous = true,
                        .times = context_.policy.context - 1});
  }

  /// Heads for parts of the sequence; the backward sends the gradient the other way.
  void exchange(TensorId id) {
    const Message message{.kind = MessageKind::all_to_all,
                          .group = RankGroup::context,
                          .bytes = block_.tensor(id).bytes()};
    op_.forward_messages.push_back(message);
    op_.backward_messages.push_back(message);
  }

  TensorId like(TensorId id) { return like(id, dtype_); }
  TensorId like(TensorId id, DType dtype) {
    return scratch(block_, {"attention", "exchange"}, block_.tensor(id).shape, dtype);
  }

  std::vector<Made> make_like(BackwardWriter& backward, const std::vector<TensorId>& tensors) {
    std::vector<Made> made;
    for (const TensorId one : tensors) made.push_back(backward.make(one, dtype_));
    return made;
  }

  static void drop(BackwardWriter& backward, const std::vector<Made>& made) {
    for (const Made one : made) backward.drop(one);
  }

  void give(BackwardWriter& backward, const std::vector<Made>& gradients) {
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      backward.give(heads_[i], gradients[i], Reach::through_view);
    }
  }

  /// Beside the gradients of one call of the kernel.
  void write_kernel(const Dimensions& dims, BackwardWriter& backward) {
    FusedCore core{dims, context_.attention.head_dim, dtype_,
                   context_.attention.kv_heads < context_.attention.heads};
    // After the exchange a kernel sees the whole sequence.
    if (!(dims.s == context_.s)) core.rows = core.rows * context_.c;
    if (context_.policy.implementation.attention == AttentionKernel::flash_2 && !context_.latent) {
      flash_backward(block_, core, backward);
    } else {
      cudnn_backward(block_, core, backward);
    }
  }

  /// Queries of a part of the sequence, keys and values of all of it.
  TensorId emit() {
    const Dimensions dims = context_.dimensions();
    const Expr pairs = Expr(2) * dims.b * dims.a * dims.s * dims.s * context_.c;
    const Expr scores = pairs * dims.d;
    const Expr values = pairs * context_.of_values();
    block_.emit(std::move(op_), {scores + values, Expr(3) * scores + Expr(2) * values});
    return out_;
  }

  BlockBuilder& block_;
  const MegatronContext& context_;
  const std::vector<TensorId>& heads_;
  DType dtype_;
  TensorId out_;
  Op op_;
};

}  // namespace

TensorId te_context_attention(BlockBuilder& block, const MegatronContext& context,
                              const std::vector<TensorId>& heads) {
  ContextAttention function(block, context, heads);
  return context.policy.context_exchange == ContextExchange::ring ? function.ring()
                                                                  : function.all_to_all();
}

}  // namespace memest
