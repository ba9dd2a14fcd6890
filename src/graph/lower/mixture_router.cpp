#include <utility>

#include "mixture.hpp"

namespace memest {
namespace {

class RouterWriter {
 public:
  RouterWriter(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part)
      : block_(block), context_(context), part_(part), tokens_(context.dims.b * context.dims.s) {}

  RoutedChoice write(TensorId x) {
    Frame forward(block_);
    RoutedChoice chosen;
    {
      Frame call(block_);
      const Projection2d gate = {"gate", context_.dims.h, Symbol::experts};
      const TensorId rows = view(block_, {"gate", "rows"}, x, block_.tensor(x).shape);
      chosen.logits = forward.local(linear(block_, gate, {tokens_}, rows));
    }
    const TensorId probabilities = forward.local(softmax_of(chosen.logits));
    const auto [best, indices] = choose(probabilities);
    chosen.indices = forward.local(indices);
    const TensorId weights = part_.weights_over_sum ? over_sum(best) : best;
    const bool in_fp32 = context_.habits.router == RouterWriting::in_fp32;
    chosen.weights = in_fp32 ? weights
                             : cast(block_, {"router_weights", "in type"}, weights,
                                    block_.dtype_of(chosen.logits));
    forward.local(chosen.weights);
    return chosen;
  }

 private:
  [[nodiscard]] Shape of_width(const Expr& width) const { return {tokens_, width}; }
  /// One choice is summed and broadcast without a kernel.
  [[nodiscard]] Shape by_choice() const {
    return of_width(part_.top_k == 1 ? Expr(1) : Expr(Symbol::top_k));
  }

  TensorId softmax_of(TensorId logits) {
    if (context_.habits.router == RouterWriting::in_fp32) {
      logits = cast(block_, {"router_softmax", "in fp32"}, logits, DType::fp32);
    }
    return softmax(block_, "router_softmax", logits, DType::fp32);
  }

  struct Best {
    TensorId values = 0;
    TensorId indices = 0;
  };
  /// topk: its backward puts the gradients into zeros.
  Best choose(TensorId probabilities) {
    const DType dtype = block_.dtype_of(probabilities);
    const Shape shape = by_choice();
    const Best best = {block_.make({"top_k", "probabilities"}, shape, dtype),
                       block_.make({"top_k", "indices"}, shape, DType::int64)};
    Op op;
    op.kind = OpKind::reduce;
    op.name = "top_k";
    op.inputs = {probabilities};
    op.outputs = {best.values, best.indices};
    op.saved = {best.indices};
    BackwardWriter backward(op);
    backward.give(probabilities, backward.make(probabilities, dtype));
    block_.emit(std::move(op));
    block_.set_needs_gradient(best.indices, false);
    return best;
  }

  /// values /= values.sum(-1): the quotient takes the values' place, of which the backward has a
  /// copy.
  TensorId over_sum(TensorId values) {
    constexpr std::string_view kName = "router_weights";
    const DType dtype = block_.dtype_of(values);
    const TensorId sum = sum_of_choices(values);
    const Shape& shape = block_.tensor(values).shape;
    const TensorId before = block_.make({kName, "values"}, shape, dtype);
    block_.tensor(before).for_backward = true;
    const TensorId out = block_.alias({kName}, values, shape);
    Op op;
    op.kind = OpKind::multiply;
    op.name = kName;
    op.inputs = {values, sum};
    op.outputs = {before, out};
    op.saved = {sum, before};
    BackwardWriter backward(op);
    // -gradient · ((values / sum) / sum), and then gradient / sum.
    const auto quotient = backward.make(out, dtype);
    const auto twice = backward.make(out, dtype);
    const auto negated = backward.make(out, dtype);
    const auto of_sum = backward.make(out, dtype);
    for (const auto factor : {negated, twice, quotient}) backward.drop(factor);
    backward.give(values, backward.make(out, dtype));
    give_settled(block_, backward, sum, of_sum, out);
    block_.emit(std::move(op));
    block_.set_needs_gradient(before, false);
    return out;
  }

  /// Its gradient is one number a token, seen for every choice.
  TensorId sum_of_choices(TensorId values) {
    const DType dtype = block_.dtype_of(values);
    const TensorId sum = block_.make({"router_weights", "sum"}, of_width(Expr(1)), dtype);
    Op op;
    op.kind = OpKind::reduce;
    op.name = "router_weights";
    op.inputs = {values};
    op.outputs = {sum};
    op.forward_launches = {
        sum_between(block_.tensor(values).shape, block_.tensor(sum).shape, dtype)};
    BackwardWriter(op).hand_on(values, Reach::through_view);
    block_.emit(std::move(op));
    return sum;
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const MixtureOfExperts& part_;
  Expr tokens_;
};

}  // namespace

RoutedChoice route(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part,
                   TensorId x) {
  return RouterWriter(block, context, part).write(x);
}

}  // namespace memest
