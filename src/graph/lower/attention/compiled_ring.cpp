#include "graph/lower/attention/compiled_ring.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// The forward: every step's output stays until one kernel has merged all.
void write_forward(BlockBuilder& block, const RingShapes& shapes, Op& op) {
  std::vector<Step> steps;
  std::vector<std::uint8_t> answers;
  const auto place = [&](std::string_view name, TensorId like, DType dtype) {
    op.forward_scratch.push_back(
        scratch(block, {"attention", name}, block.tensor(like).shape, dtype));
    return static_cast<std::uint8_t>(op.forward_scratch.size() - 1);
  };
  const DType half = block.dtype_of(shapes.q);
  const std::uint8_t pair = place("sent", shapes.pair, half);
  for (std::int64_t step = 0; step < shapes.ranks; ++step) {
    const bool whole = step == 0;
    answers.push_back(place("of a step", whole ? shapes.q : shapes.late, half));
    answers.push_back(
        place("log-sum-exp of a step", whole ? shapes.sums : shapes.late_sums, DType::fp32));
  }
  const auto output = [&](std::size_t index) {
    steps.push_back(
        {StepKind::allocate, static_cast<std::uint8_t>(op.forward_scratch.size() + index)});
  };
  constexpr std::size_t kKeys = 4;
  constexpr std::size_t kGathered = 5;
  output(kKeys);
  steps.push_back({StepKind::allocate, pair});
  output(kGathered);
  steps.push_back({StepKind::free, pair});
  for (const std::uint8_t answer : answers) steps.push_back({StepKind::allocate, answer});
  // The random state that is kept is the last step's; the merged sums, then the output.
  for (const std::size_t made : {2, 3, 1, 0}) output(made);
  for (const std::uint8_t answer : answers) steps.push_back({StepKind::free, answer});
  op.forward_steps = std::move(steps);
}

/// The backward: the gradients of keys and values go round in fp32.
class CompiledRingBackward {
 public:
  CompiledRingBackward(BlockBuilder& block, const RingShapes& shapes, const FusedCore& core, Op& op)
      : block_(block), shapes_(shapes), core_(core), writer_(op) {}

  void write() {
    const Made whole = run_kernel(shapes_.q, core_);
    Made sent = writer_.make(shapes_.pair, DType::fp32);
    drop_keys();
    Made received = writer_.make(shapes_.pair, DType::fp32);
    std::vector<Made> late;
    const FusedCore half = half_of(core_);
    for (std::int64_t step = 1; step < shapes_.ranks; ++step) {
      const Made sums = writer_.make(shapes_.late_sums, DType::fp32);
      late.push_back(run_kernel(shapes_.late, half));
      writer_.drop(sums);
      writer_.drop(sent);
      sent = writer_.make(shapes_.pair, DType::fp32);
      drop_keys();
      writer_.drop(received);
      received = writer_.make(shapes_.pair, DType::fp32);
    }
    writer_.drop(sent);
    const Made keys = writer_.make(shapes_.pair, core_.dtype);
    writer_.drop(received);
    const Made wide = writer_.make(shapes_.q, DType::fp32);
    for (const Made one : late) writer_.drop(one);
    writer_.drop(wide);
    writer_.give(shapes_.q, whole, Reach::through_view);
    for (const TensorId one : {shapes_.k, shapes_.v}) {
      writer_.give(one, keys, Reach::through_view);
    }
  }

 private:
  using Made = BackwardWriter::Made;

  /// Answers the gradient of the queries; those of keys and values lie beside.
  Made run_kernel(TensorId queries, const FusedCore& core) {
    const Made of_q = writer_.make(queries, core_.dtype);
    keys_ = {writer_.make(shapes_.k, core_.dtype), writer_.make(shapes_.v, core_.dtype)};
    fused_backward(block_, core, writer_);
    return of_q;
  }
  void drop_keys() {
    for (const Made one : keys_) writer_.drop(one);
  }

  BlockBuilder& block_;
  const RingShapes& shapes_;
  const FusedCore& core_;
  BackwardWriter writer_;
  std::vector<Made> keys_;
};

}  // namespace

void write_compiled_ring(BlockBuilder& block, const RingShapes& shapes, const FusedCore& core,
                         Op& op) {
  const auto keep = [&](std::string_view name, TensorId like) {
    op.outputs.push_back(block.make({"attention", name}, block.tensor(like).shape, core.dtype));
    op.saved.push_back(op.outputs.back());
  };
  // The rank's own keys as they are sent, by heads, in whose place a checkpoint would turn them
  // again.
  std::erase(op.saved, shapes.k);
  keep("kept keys", shapes.k);
  keep("kept keys and values", shapes.gathered);
  write_forward(block, shapes, op);
  CompiledRingBackward(block, shapes, core, op).write();
}

}  // namespace memest
