#include <string_view>
#include <utility>

#include "graph/lower/experts/mixture.hpp"

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
      const Projection2d gate = {"gate", context_.dims.h, Symbol::experts, part_.router_bias};
      // GPT-OSS's router is given rows.
      const bool given = context_.habits.router == RouterWriting::of_choice;
      const TensorId rows = given ? x : view(block_, {"gate", "rows"}, x, block_.tensor(x).shape);
      chosen.logits = forward.local(linear(block_, gate, {{tokens_}, rows}));
    }
    if (context_.habits.router == RouterWriting::of_choice) {
      // GptOssTopKRouter: topk of the logits first, then softmax of the chosen ones with
      // dtype=router_top_value.dtype: K columns, not all experts'.
      const auto [best, indices] = best_of(block_, part_, chosen.logits);
      chosen.indices = forward.local(indices);
      chosen.weights = softmax(block_, "router_softmax", best, block_.dtype_of(best));
      return chosen;
    }
    const TensorId probabilities = forward.local(softmax_of(chosen.logits));
    const auto [best, indices] = best_of(block_, part_, probabilities);
    chosen.indices = forward.local(indices);
    TensorId weights = best;
    if (part_.weights_over_sum) {
      Frame naming(block_);
      // Mixtral always, Qwen with norm_topk_prob: router_top_value /= router_top_value.sum(dim=-1,
      // keepdim=True).
      weights = over_sum(block_, best, Denominator::sum, naming);
    }
    const bool in_fp32 = context_.habits.router == RouterWriting::in_fp32;
    chosen.weights = in_fp32 ? weights
                             : cast(block_, {"router_weights", "in type"}, weights,
                                    block_.dtype_of(chosen.logits));
    forward.local(chosen.weights);
    return chosen;
  }

 private:
  TensorId softmax_of(TensorId logits) {
    if (context_.habits.router == RouterWriting::in_fp32) {
      // Mixtral: softmax(router_logits.float()); Qwen: softmax(router_logits, dtype=torch.float),
      // which casts within the call.
      logits = cast(block_, {"router_softmax", "in fp32"}, logits, DType::fp32);
    }
    return softmax(block_, "router_softmax", logits, DType::fp32);
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const MixtureOfExperts& part_;
  Expr tokens_;
};

/// Autocast sums in fp32. The gradient is one number a token, seen for every choice.
TensorId sum_of_choices(BlockBuilder& block, TensorId values) {
  const DType given = block.dtype_of(values);
  // sum is on autocast's fp32_set_opt_dtype list (autocast_mode.h).
  const DType dtype = block.precision().autocast ? DType::fp32 : given;
  Shape shape = block.tensor(values).shape;
  shape.back() = Expr(1);
  const TensorId sum = block.make({"router_weights", "sum"}, std::move(shape), dtype);
  Op op;
  op.kind = OpKind::reduce;
  op.name = "router_weights";
  op.inputs = {values};
  op.outputs = {sum};
  op.forward_launches = {sum_between(block.tensor(values).shape, block.tensor(sum).shape, dtype)};
  BackwardWriter backward(op);
  if (given == dtype) {
    backward.hand_on(values, Reach::through_view);
  } else {
    backward.give(values, backward.make(values, given));
  }
  block.emit(std::move(op));
  return sum;
}

/// -gradient · ((values / sum) / sum), summed for the sum, and gradient / sum before that sum.
/// derivatives.yaml, div.Tensor: div_tensor_other_backward is -grad * ((self / other) /
/// other).conj().
void write_quotient_backward(BlockBuilder& block, TensorId values, TensorId sum, Op& op) {
  const DType given = block.dtype_of(values);
  const DType wide = promoted(given, block.dtype_of(sum));
  BackwardWriter backward(op);
  const auto quotient = backward.make(values, wide);
  const auto twice = backward.make(values, wide);
  const auto negated = backward.make(values, given);
  auto of_sum = backward.make(values, wide);
  for (const auto factor : {negated, twice, quotient}) backward.drop(factor);
  auto of_values = backward.make(values, wide);
  backward.leave_node();
  if (wide != given) {
    const auto narrow = backward.make(values, given);
    backward.drop(of_values);
    of_values = narrow;
  }
  backward.give(values, of_values);
  const Shape& shape = block.tensor(sum).shape;
  if (shape != block.tensor(values).shape) {
    const auto summed = backward.make(sum, wide);
    backward.launch(sum_between(block.tensor(values).shape, shape, wide));
    backward.drop(of_sum);
    of_sum = summed;
  }
  backward.give(sum, of_sum);
}

}  // namespace

RoutedChoice route(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part,
                   TensorId x) {
  const RouterWriting writing = context.habits.router;
  if (writing == RouterWriting::of_groups || writing == RouterWriting::of_sigmoid) {
    return route_by_groups(block, context, part, x);
  }
  return RouterWriter(block, context, part).write(x);
}

Shape of_choices(const MixtureOfExperts& part, const Expr& tokens) {
  return {tokens, part.top_k == 1 ? Expr(1) : Expr(Symbol::top_k)};
}

Pair best_of(BlockBuilder& block, const MixtureOfExperts& part, TensorId scores) {
  const Shape shape = of_choices(part, block.tensor(scores).shape.front());
  return taken_of(block, {{"top_k", "probabilities"}, shape, block.dtype_of(scores)},
                  {{"top_k", "indices"}, shape, DType::int64}, scores);
}

TensorId over_sum(BlockBuilder& block, TensorId values, Denominator denominator, Frame& naming) {
  constexpr std::string_view kName = "router_weights";
  TensorId sum = sum_of_choices(block, values);
  if (denominator == Denominator::guarded) {
    sum = naming.local(add_number(block, {kName, "sum + epsilon"}, sum));
  }
  const Shape shape = block.tensor(values).shape;
  // An in-place division writes over what its own backward reads, so the generated VariableType
  // keeps self.clone() where the divisor wants a gradient.
  const TensorId before = block.make({kName, "values"}, shape, block.dtype_of(values));
  block.tensor(before).for_backward = true;
  const TensorId out = block.alias({kName}, values, shape);
  Op op;
  op.kind = OpKind::multiply;
  op.name = kName;
  op.inputs = {values, sum};
  op.outputs = {before, out};
  op.saved = {sum, before};
  write_quotient_backward(block, values, sum, op);
  block.emit(std::move(op));
  block.set_needs_gradient(before, false);
  return out;
}

Pair sorted_by_expert(BlockBuilder& block, const Expr& pairs, TensorId indices) {
  const Pair sorted = {block.make({"sort", "experts"}, {pairs}, DType::int64),
                       block.make({"sort", "order"}, {pairs}, DType::int64)};
  Op op;
  op.kind = OpKind::copy;
  op.name = "sort";
  op.inputs = {indices};
  op.outputs = {sorted.first, sorted.second};
  KernelLaunch launch;
  // torch.sort makes values and indices, both int64: 16 B a pair.
  launch.kind = KernelLaunch::Kind::sort;
  launch.reduced = pairs;
  op.forward_launches = {std::move(launch)};
  block.emit(std::move(op));
  return sorted;
}

TensorId over_guarded_sum(BlockBuilder& block, TensorId values, Frame& naming) {
  constexpr std::string_view kName = "router_weights";
  const TensorId sum =
      naming.local(add_number(block, {kName, "sum + epsilon"}, sum_of_choices(block, values)));
  const TensorId out =
      block.make({kName, "over sum"}, block.tensor(values).shape, block.dtype_of(values));
  Op op;
  op.kind = OpKind::multiply;
  op.name = kName;
  op.inputs = {values, sum};
  op.outputs = {out};
  op.saved = {sum, values};
  write_quotient_backward(block, values, sum, op);
  block.emit(std::move(op));
  return out;
}

}  // namespace memest
