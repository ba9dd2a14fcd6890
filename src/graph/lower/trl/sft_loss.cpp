// trl 1.16, trainer/sft_trainer.py: compute_loss.
#include <string_view>
#include <utility>

#include "graph/lower/trl/trl.hpp"

namespace memest {
namespace {

constexpr std::string_view kReport = "report";

/// `x` over a number that is a tensor, which is kept.
TensorId divided(BlockBuilder& block, Place place, TensorId x, TensorId by) {
  const TensorId out = block.make(place, block.tensor(x).shape, block.dtype_of(x));
  Op op;
  op.kind = OpKind::scale;
  op.name = place.op;
  op.inputs = {x, by};
  op.outputs = {out};
  op.saved = {by};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

/// The trainer logs entropy, accuracy and the number of tokens, gathered of one rank.
void report(BlockBuilder& block, const DecoderContext& context, const HeadAnswer& answer,
            Frame& function) {
  const auto summed = [&](std::string_view name, TensorId own) {
    return function.local(reduced_to_number(block, {kReport, name}, own, block.dtype_of(own)));
  };
  const TensorId valid =
      summed("targets of all ranks", counted_flags(block, {kReport, "targets"}, answer.mask));
  const TensorId entropy =
      summed("entropy of all ranks",
             reduced_to_number(block, {kReport, "entropy"}, answer.others[0], DType::fp32));
  const TensorId correct =
      summed("correct of all ranks", counted_flags(block, {kReport, "correct"}, answer.others[1]));
  reduced_to_number(block, {kReport, "some"}, valid, DType::boolean);
  reduced_to_number(block, {kReport, "mean entropy"}, entropy, DType::fp32);
  reduced_to_number(block, {kReport, "some again"}, valid, DType::boolean);
  reduced_to_number(block, {kReport, "accuracy"}, correct, DType::fp32);
  const TensorId ids = block.shared("token ids", context.dims.rows(), DType::int64);
  const TensorId tokens = reduced_to_number(block, {kReport, "tokens"}, ids, DType::int64);
  reduced_to_number(block, {kReport, "tokens of all ranks"}, tokens, DType::int64);
}

}  // namespace

Block sft_loss_block(const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  BlockBuilder block("loss", context.precision());
  const TensorId hidden = block.block_input({dims.b, dims.s, dims.h}, context.policy.weights);
  TensorId loss = 0;
  {
    Frame function(block);
    const TensorId ids = block.shared("token ids", dims.rows(), DType::int64);
    const HeadAnswer answer = fused_head(block, context, {hidden, ids, {true, false}});
    function.local(answer.own_loss.targets);
    function.local(answer.own_loss.loss);
    function.local(answer.log_probs);
    for (const TensorId id : answer.others) function.local(id);
    const TensorId losses = function.local(scale(block, {"loss", "of a token"}, answer.log_probs));
    const TensorId sum = sum_of_all(block, {"loss", "sum"}, losses);
    const TensorId targets =
        compute(block, OpKind::copy, {}, {{"loss", "targets"}, {Expr(1)}, DType::int64});
    const TensorId mean = divided(block, {"loss", "mean"}, sum, targets);
    // average_tokens_across_devices: times the number of processes.
    loss = scale(block, {"loss"}, mean);
    report(block, context, answer, function);
  }
  return std::move(block).take(loss);
}

}  // namespace memest
