// A model's answer over several ranks: copies and casts of it by what wraps the model, and numbers
// that all ranks gather for their report.
#include <algorithm>
#include <utility>

#include "graph/lower/trl/trl.hpp"

namespace memest {
namespace {

constexpr std::string_view kSink = "answers";

/// Tensors that a function copies in one order and lists in another.
class Copies {
 public:
  explicit Copies(BlockBuilder& block) : block_(block) {}

  /// The copy of `id`, which takes its place.
  TensorId keep(std::string_view name, TensorId id) {
    kept_.push_back(block_.make({kSink, name}, block_.tensor(id).shape, block_.dtype_of(id)));
    order_.push_back({true, kept_.size() - 1});
    return kept_.back();
  }
  /// A copy of `id` that nobody takes.
  void drop(std::string_view name, TensorId id) {
    dropped_.push_back(
        scratch(block_, {kSink, name}, block_.tensor(id).shape, block_.dtype_of(id)));
    order_.push_back({false, dropped_.size() - 1});
  }
  /// In the order in which they were asked for; those that are dropped go from the last one on.
  void write(Op& op) const {
    op.outputs = kept_;
    op.forward_scratch = dropped_;
    for (const Made& made : order_) {
      op.forward_steps.push_back({StepKind::allocate, place_of(made)});
    }
    for (std::size_t i = dropped_.size(); i > 0; --i) {
      op.forward_steps.push_back({StepKind::free, place_of({false, i - 1})});
    }
  }

 private:
  struct Made {
    bool kept = false;
    std::size_t index = 0;
  };
  /// Outputs count behind the scratch.
  [[nodiscard]] std::uint8_t place_of(const Made& made) const {
    return static_cast<std::uint8_t>(made.kept ? dropped_.size() + made.index : made.index);
  }

  BlockBuilder& block_;
  std::vector<TensorId> kept_;
  std::vector<TensorId> dropped_;
  std::vector<Made> order_;
};

/// Emits `op`; the log-probabilities alone are part of a graph.
void emit_answer(BlockBuilder& block, Op op, TensorId log_probs) {
  const std::vector<TensorId> made = op.outputs;
  block.emit(std::move(op));
  for (const TensorId id : made) {
    if (id != log_probs) block.set_needs_gradient(id, false);
  }
}

}  // namespace

// torch/nn/parallel/distributed.py, _DDPSink: what is part of a graph goes on as its copy. Its node
// keeps the graph of the model's own loss.
void copy_model_answer(BlockBuilder& block, HeadAnswer& answer) {
  Frame model(block);
  Op op;
  op.kind = OpKind::copy;
  op.name = kSink;
  const TensorId log_probs = answer.log_probs;
  op.inputs = {answer.own_loss.loss, *answer.own_loss.targets, answer.mask, log_probs};
  op.saved = {*answer.own_loss.targets};
  model.local(answer.own_loss.loss);
  model.local(log_probs);
  Copies copies(block);
  answer.own_loss = {std::nullopt, copies.keep("own loss", answer.own_loss.loss)};
  answer.log_probs = copies.keep("log_probs", log_probs);
  op.inputs.insert(op.inputs.end(), answer.others.begin(), answer.others.end());
  // ChunkedLogProbFunction marks what is behind the entropy as not differentiable.
  TensorId& entropy = answer.others.front();
  model.local(entropy);
  const bool with_logits = answer.others.size() > 2;
  entropy = copies.keep("entropy", entropy);
  if (with_logits) copies.drop("mean_logits", answer.others[1]);
  copies.drop("is_top1", answer.others.back());
  copies.drop("mask", answer.mask);
  copies.write(op);
  BackwardWriter(op).hand_on(log_probs);
  emit_answer(block, std::move(op), answer.log_probs);
}

// torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _post_forward: its output_dtype.
void cast_model_answer(BlockBuilder& block, HeadAnswer& answer, DType type) {
  Frame model(block);
  Op op;
  op.kind = OpKind::cast;
  op.name = kSink;
  const auto cast_of = [&](std::string_view name, TensorId id) {
    model.local(id);
    op.inputs.push_back(id);
    op.outputs.push_back(block.make({kSink, name}, block.tensor(id).shape, type));
    return op.outputs.back();
  };
  const TensorId log_probs = answer.log_probs;
  answer.own_loss.loss = cast_of("own loss", answer.own_loss.loss);
  answer.log_probs = cast_of("log_probs", log_probs);
  for (TensorId& id : answer.others) {
    if (block.dtype_of(id) == DType::boolean) continue;
    id = cast_of(id == answer.others.front() ? "entropy" : "mean_logits", id);
  }
  BackwardWriter backward(op);
  backward.give(log_probs, backward.make(log_probs, block.dtype_of(log_probs)));
  emit_answer(block, std::move(op), answer.log_probs);
}

// accelerate 1.15, utils/operations.py, _gpu_gather: a number is copied to have a dimension.
TensorId gathered_report(BlockBuilder& block, const DecoderContext& context, const Reported& part) {
  const std::int64_t ranks = context.policy.reporting;
  if (ranks == 1) return part.own;
  const Tensor& own = block.tensor(part.own);
  const Expr elements = own.elements();
  const DType dtype = own.dtype;
  Op op;
  op.kind = OpKind::copy;
  op.name = part.place.op;
  op.inputs = {part.own};
  if (part.kind == Gathered::number) {
    op.forward_scratch = {scratch(block, {part.place.op, "number to gather"}, {elements}, dtype)};
  }
  const TensorId out = block.make(part.place, {Expr(ranks) * elements}, dtype);
  op.outputs = {out};
  block.emit(std::move(op));
  return out;
}

}  // namespace memest
