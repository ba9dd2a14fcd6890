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

/// The trainer logs entropy, accuracy and the number of tokens, gathered of all ranks.
class SftReport {
 public:
  SftReport(BlockBuilder& block, const DecoderContext& context)
      : block_(block), context_(context) {}

  void write(const HeadAnswer& answer, Frame& function) {
    const TensorId valid = function.local(
        summed({"gathered targets", "targets of all ranks"}, counted("targets", answer.mask)));
    const TensorId entropy = function.local(
        summed({"gathered entropy", "entropy of all ranks"},
               number("entropy", answer.others[0], block_.dtype_of(answer.others[0]))));
    const TensorId correct = function.local(
        summed({"gathered correct", "correct of all ranks"}, counted("correct", answer.others[1])));
    number("some", valid, DType::boolean);
    number("mean entropy", entropy, block_.dtype_of(entropy));
    number("some again", valid, DType::boolean);
    number("accuracy", correct, DType::fp32);
    // attention_mask.sum(); without one torch.tensor(position_ids.size(1)).
    const TensorId ids = block_.shared("token ids", context_.dims.rows(), DType::int64);
    const TensorId tokens =
        context_.joins_sequences()
            ? compute(block_, OpKind::copy, {}, {{kReport, "tokens"}, {Expr(1)}, DType::int64})
            : number("tokens", ids, DType::int64);
    summed({"gathered tokens", "tokens of all ranks"}, tokens);
  }

 private:
  struct Names {
    std::string_view gathered;
    std::string_view sum;
  };

  TensorId number(std::string_view name, TensorId of, DType dtype) {
    return reduced_to_number(block_, {kReport, name}, of, dtype);
  }
  TensorId counted(std::string_view name, TensorId flags) {
    return counted_flags(block_, {kReport, name}, flags);
  }
  TensorId summed(const Names& names, TensorId own) {
    const TensorId all = gathered_report(block_, context_, {{kReport, names.gathered}, own});
    return number(names.sum, all, block_.dtype_of(all));
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
};

}  // namespace

Block sft_loss_block(const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  BlockBuilder block("loss", context.precision());
  const TensorId hidden = block.block_input({dims.b, dims.s, dims.h}, hidden_type(context));
  TensorId loss = 0;
  {
    Frame function(block);
    const TensorId ids = block.shared("token ids", dims.rows(), DType::int64);
    const HeadAnswer answer = fused_head(block, context, {hidden, ids, {true, false}});
    if (answer.own_loss.targets) function.local(*answer.own_loss.targets);
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
    SftReport(block, context).write(answer, function);
  }
  return std::move(block).take(loss);
}

}  // namespace memest
