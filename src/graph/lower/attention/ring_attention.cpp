// Attention over a sequence that lies on several ranks, as PyTorch runs it (2.11,
// torch/distributed/tensor/experimental/_context_parallel/_attention.py): one autograd function.
// Every rank has an early and a late part of the sequence. All ranks' keys and values are gathered
// at once and used one rank's a step. From the second step on the first rank, whose memory this is,
// needs the late half of its queries. Outputs and gradients are merged in fp32.
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/attention/fused_core.hpp"
#include "graph/lower/attention/ring_passes.hpp"

namespace memest {
namespace {

/// The backward. The gradients of keys and values go round with them and come back with all ranks'
/// parts.
class RingBackward {
 public:
  RingBackward(BlockBuilder& block, const RingShapes& shapes, const FusedCore& core, Op& op)
      : block_(block), shapes_(shapes), core_(core), op_(op), writer_(op) {}

  void write(std::int64_t ranks) {
    const DType half = core_.dtype;
    outputs_by_tokens_ = {Slot{shapes_.q, half}, Slot{shapes_.late, half}};
    const auto wide = [](TensorId like) { return Slot{like, DType::fp32}; };
    const auto narrow = [half](TensorId like) { return Slot{like, half}; };
    of_q_ = {{wide(shapes_.q), wide(shapes_.q)}};
    sums_ = {wide(shapes_.k), wide(shapes_.v)};
    if (shapes_.by_tokens) copies_ = {narrow(shapes_.k), narrow(shapes_.v)};
    pairs_ = {{narrow(shapes_.pair), narrow(shapes_.pair)}};
    gathered_ = narrow(shapes_.gathered);
    sent_ = wide(shapes_.pair);
    received_ = {{wide(shapes_.pair), wide(shapes_.pair)}};
    late_sums_ = {{wide(shapes_.late_sums), wide(shapes_.late_sums)}};
    const Gradients late = {narrow(shapes_.late), narrow(shapes_.k), narrow(shapes_.v)};
    gradients_ = {{Gradients{narrow(shapes_.q), narrow(shapes_.k), narrow(shapes_.v)}, late}};
    write_first();
    for (std::int64_t step = 1; step < ranks; ++step) {
      write_step(step, step + 1 == ranks);
      if (step == 1) gradients_.of(0) = late;
    }
    finish(ranks - 1);
  }

 private:
  /// A tensor that may be made more than once.
  struct Slot {
    TensorId like = 0;
    DType dtype = DType::fp32;
    std::optional<BackwardWriter::Made> made = {};
  };
  using Gradients = std::array<Slot, 3>;

  void make(Slot& slot) {
    if (slot.made) {
      writer_.remake(*slot.made);
    } else {
      slot.made = writer_.make(slot.like, slot.dtype);
    }
  }
  void drop(const Slot& slot) { writer_.drop(*slot.made); }

  /// Gradients of a step and what the kernel makes beside them: in every step but the first that of
  /// half of the queries.
  void run_kernel(Gradients& gradients, bool whole) {
    // _flash_attention_backward: out.contiguous() by tokens, as which merged outputs do not lie.
    Slot& by_tokens = outputs_by_tokens_[whole ? 0 : 1];
    if (op_.flash_2) make(by_tokens);
    for (Slot& one : gradients) make(one);
    write_kernel(whole);
    if (op_.flash_2) drop(by_tokens);
  }

  void write_kernel(bool whole) {
    std::vector<Step>& steps = kernels_[whole ? 0 : 1];
    if (!steps.empty()) {
      op_.backward_steps.insert(op_.backward_steps.end(), steps.begin(), steps.end());
      return;
    }
    const std::size_t begin = op_.backward_steps.size();
    const FusedCore core = whole ? core_ : half_of(core_);
    fused_backward(block_, core, writer_);
    steps.assign(op_.backward_steps.begin() + static_cast<std::ptrdiff_t>(begin),
                 op_.backward_steps.end());
  }

  void write_first() {
    make(of_q_.of(0));
    for (Slot& sum : sums_) make(sum);
    for (Slot& copy : copies_) make(copy);
    make(pairs_.of(0));
    make(gathered_);
    run_kernel(gradients_.of(0), true);
    // The zeros that they are added to lie as keys and values do, and are joined by heads.
    std::vector<Slot> flat;
    if (shapes_.by_tokens) flat = {{shapes_.k, DType::fp32}, {shapes_.v, DType::fp32}};
    for (Slot& part : flat) make(part);
    make(sent_);
    for (const Slot& part : flat) drop(part);
    make(received_.of(0));
  }

  void write_step(std::int64_t step, bool last) {
    if (!last) make(pairs_.of(step));
    if (!last) drop(pairs_.before(step));
    make(late_sums_.of(step));
    if (step == 1) {
      for (const Slot& copy : copies_) drop(copy);
    } else {
      drop(late_sums_.before(step));
    }
    run_kernel(gradients_.of(step), false);
    for (const Slot& gone : gradients_.before(step)) drop(gone);
    drop(sent_);
    if (step == 1) {
      for (const Slot& sum : sums_) drop(sum);
    } else {
      drop(received_.of(step));
    }
    make(sent_);
    make(received_.of(step));
    make(of_q_.of(step));
    drop(of_q_.before(step));
  }

  void finish(std::int64_t last) {
    Slot q{shapes_.q, core_.dtype};
    Slot both{shapes_.pair, core_.dtype};
    make(q);
    drop(of_q_.of(last));
    make(both);
    for (const Slot* gone : {&sent_, &received_.before(last), &pairs_.of(last - 1)}) drop(*gone);
    for (const Slot& gone : gradients_.of(last)) drop(gone);
    for (const Slot* gone : {&received_.of(last), &gathered_, &late_sums_.of(last)}) drop(*gone);
    writer_.give(shapes_.q, *q.made, Reach::through_view);
    for (const TensorId one : {shapes_.k, shapes_.v}) {
      writer_.give(one, *both.made, Reach::through_view);
    }
  }

  BlockBuilder& block_;
  const RingShapes& shapes_;
  const FusedCore& core_;
  Op& op_;
  BackwardWriter writer_;
  Alternating<Slot> of_q_;
  std::array<Slot, 2> sums_;
  std::vector<Slot> copies_;
  Alternating<Slot> pairs_;
  Slot gathered_;
  Slot sent_;
  Alternating<Slot> received_;
  Alternating<Slot> late_sums_;
  Alternating<Gradients> gradients_;
  std::array<Slot, 2> outputs_by_tokens_;  // the whole one, and its late half
  std::array<std::vector<Step>, 2> kernels_;
};

RingShapes shapes_of(BlockBuilder& block, const Dimensions& dims, const Op& op) {
  const DType half = block.dtype_of(op.inputs[0]);
  const Expr pair = Expr(2) * block.tensor(op.inputs[1]).elements();
  const Shape late = {dims.b, dims.a, dims.s / Expr(2)};
  const auto like = [&](std::string_view name, Shape shape, DType dtype) {
    return scratch(block, {"attention", name}, std::move(shape), dtype);
  };
  RingShapes shapes;
  shapes.q = op.inputs[0];
  shapes.k = op.inputs[1];
  shapes.v = op.inputs[2];
  shapes.sums = op.outputs[1];
  shapes.pair = like("keys and values", {pair}, half);
  shapes.gathered = like("gathered keys and values", {Expr(Symbol::context), pair}, half);
  shapes.late = like("late half", {late[0], late[1], late[2], dims.d}, half);
  shapes.late_sums = like("log-sum-exp of the late half", late, DType::fp32);
  return shapes;
}

/// The gathering is waited for behind the first step; gradients go on from step to step.
void send(BlockBuilder& block, const RingShapes& shapes, std::int64_t ranks, Op& op) {
  const Message gathers{.kind = MessageKind::all_gather,
                        .group = RankGroup::context,
                        .bytes = block.tensor(shapes.gathered).bytes()};
  op.forward_messages = {gathers};
  op.backward_messages = {gathers,
                          {.kind = MessageKind::send,
                           .group = RankGroup::context,
                           .bytes = Expr(2) * block.tensor(shapes.pair).bytes(),
                           .asynchronous = true,
                           .times = ranks}};
}

}  // namespace

TensorId ring_attention(BlockBuilder& block, const DecoderContext& context,
                        const AttentionCall& call, const AttentionInputs& inputs) {
  const Dimensions& dims = context.dims;
  const std::int64_t ranks = context.policy.context;
  Op op;
  op.kind = OpKind::attention;
  op.name = "attention";
  op.compute = call.dtype;
  op.part_of.attention_core = true;
  op.causal = true;
  op.flash_2 = call.kernel == AttentionKernel::sdpa_flash;
  op.kernels = ranks;
  op.inputs = {inputs.q.id, inputs.k.id, inputs.v.id};
  const auto make = [&](std::string_view name, Shape shape, DType dtype) {
    return block.make({"attention", name}, std::move(shape), dtype);
  };
  const TensorId out = make("out", block.tensor(inputs.q.id).shape, call.dtype);
  const TensorId sums = make("log-sum-exp", {dims.b, dims.a, dims.s}, DType::fp32);
  const TensorId seed = make("seed", {Expr(op.flash_2 ? 2 : 1)}, DType::int64);
  const TensorId offset = make("offset", {Expr(1)}, DType::int64);
  op.outputs = {out, sums, seed, offset};
  op.saved = {inputs.q.id, inputs.k.id, inputs.v.id, out, sums, offset, seed};
  RingShapes shapes = shapes_of(block, dims, op);
  const auto& attention = context.attention;
  shapes.ranks = ranks;
  shapes.by_tokens = attention.kv_heads > context.policy.tensor;
  const FusedCore core{.dims = dims,
                       .head_dim = attention.head_dim,
                       .dtype = call.dtype,
                       .grouped = call.grouped,
                       .kernel = call.kernel};
  if (context.compiles_layers()) {
    write_compiled_ring(block, shapes, core, op);
  } else {
    write_ring_forward(block, shapes, op);
    RingBackward(block, shapes, core, op).write(ranks);
  }
  send(block, shapes, ranks, op);
  // Queries of a part of the sequence, keys and values of all of it.
  const Expr product = score_flops(dims) * Expr(Symbol::context);
  block.emit(std::move(op), {Expr(2) * product, Expr(5) * product});
  const Shape joined = {dims.b, dims.s, dims.a * dims.d};
  // Merged, the output lies by heads.
  if (attention.heads == context.policy.tensor) {
    return view(block, {"attention", "joined"}, out, joined);
  }
  return copy(block, {"join_heads"}, out, joined);
}

}  // namespace memest
