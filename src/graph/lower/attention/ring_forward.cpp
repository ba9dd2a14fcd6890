#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "graph/lower/attention/ring_passes.hpp"

namespace memest {
namespace {

/// The forward, tensor by tensor.
class RingForward {
 public:
  RingForward(BlockBuilder& block, const RingShapes& shapes, Op& op)
      : block_(block), shapes_(shapes), op_(op), half_(block.dtype_of(shapes.q)) {}

  void write(std::int64_t ranks) {
    std::vector<TensorId> copies;
    if (shapes_.by_tokens) copies = {like(shapes_.k, half_), like(shapes_.v, half_)};
    for (const TensorId copy : copies) make(copy);
    for (const TensorId one : {shapes_.pair, shapes_.gathered}) make(one);
    drop(shapes_.pair);
    // _SDPAMerger.step: out.to(torch.float32); log-sum-exp is fp32 already.
    merged_ = two(shapes_.q, DType::fp32);
    merged_sums_ = two(shapes_.sums, DType::fp32);
    answers_ = {
        {answer_like(shapes_.q, shapes_.sums), answer_like(shapes_.late, shapes_.late_sums)}};
    answers_.of(0).sums = merged_sums_.of(0);
    make(answers_.of(0));
    make(merged_.of(0));
    for (std::int64_t step = 1; step < ranks; ++step) {
      last_ = step + 1 == ranks;
      // Copied for the next rank, which has them already.
      if (!last_) make(shapes_.pair);
      if (!last_) drop(shapes_.pair);
      if (step == 1) {
        for (const TensorId copy : copies) drop(copy);
      }
      write_step(step);
    }
    make(op_.outputs[0]);
    for (const TensorId gone : {merged_.before(ranks), shapes_.gathered, answers_.before(ranks).out,
                                answers_.before(ranks).sums}) {
      drop(gone);
    }
    place();
  }

 private:
  /// The outputs of one step's kernel.
  struct Answer {
    TensorId seed = 0;
    TensorId offset = 0;
    TensorId out = 0;
    TensorId sums = 0;
  };

  TensorId like(TensorId id, DType dtype) {
    return scratch(block_, {"attention", "of a step"}, block_.tensor(id).shape, dtype);
  }
  Alternating<TensorId> two(TensorId id, DType dtype) {
    return {{like(id, dtype), like(id, dtype)}};
  }
  Answer answer_like(TensorId out, TensorId sums) {
    return {like(op_.outputs[2], DType::int64), like(op_.outputs[3], DType::int64),
            like(out, half_), like(sums, DType::fp32)};
  }

  void make(TensorId id) { course_.push_back({StepKind::allocate, id}); }
  void drop(TensorId id) { course_.push_back({StepKind::free, id}); }
  /// cuDNN's kernel makes its random state first, flash last.
  void make(const Answer& answer) {
    const auto [seed, offset, out, sums] = answer;
    for (const TensorId id :
         op_.flash_2 ? std::array{out, sums, seed, offset} : std::array{seed, offset, out, sums}) {
      make(id);
    }
  }

  /// The last step's random state is kept, and so is its log-sum-exp when it is merged.
  void write_step(std::int64_t step) {
    const Answer before = answers_.before(step);
    if (step == 2) answers_.of(0) = answer_like(shapes_.late, shapes_.late_sums);
    if (last_) answers_.of(step).seed = op_.outputs[2];
    if (last_) answers_.of(step).offset = op_.outputs[3];
    make(answers_.of(step));
    for (const TensorId gone : {before.out, before.offset, before.seed}) drop(gone);
    if (step > 1) drop(before.sums);
    merge(step);
  }

  /// out - sigmoid(sums' - sums) * (out - out') and sums - log(sigmoid(sums - sums')) of the late
  /// half; then the whole is written anew.
  void merge(std::int64_t step) {
    if (step == 1) {
      for (TensorId& id : wide_) id = like(shapes_.late, DType::fp32);
      for (TensorId& id : narrow_) id = like(shapes_.late_sums, DType::fp32);
    }
    const auto [given, difference, product, out] = wide_;
    const auto [gap, weight, sums] = narrow_;
    for (const TensorId made : {given, gap, weight}) make(made);
    drop(gap);
    for (const TensorId made : {difference, product}) make(made);
    for (const TensorId gone : {weight, difference}) drop(gone);
    make(out);
    drop(product);
    for (const TensorId made : {gap, weight}) make(made);
    drop(gap);
    make(sums);
    drop(weight);
    // _partial_update: torch.cat of both chunks.
    make(last_ ? op_.outputs[1] : merged_sums_.of(step));
    drop(merged_sums_.before(step));
    make(merged_.of(step));
    for (const TensorId gone : {merged_.before(step), sums, out, given}) drop(gone);
  }

  static std::size_t place_in(const std::vector<TensorId>& list, TensorId id) {
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), id) - list.begin());
  }
  [[nodiscard]] bool is_output(TensorId id) const {
    return place_in(op_.outputs, id) < op_.outputs.size();
  }

  /// Turns tensors into places among the scratch, and behind it the outputs.
  void place() {
    std::vector<TensorId>& all = op_.forward_scratch;
    for (const Change& change : course_) {
      if (!is_output(change.id) && place_in(all, change.id) == all.size()) {
        all.push_back(change.id);
      }
    }
    for (const Change& change : course_) {
      const std::size_t index = is_output(change.id) ? all.size() + place_in(op_.outputs, change.id)
                                                     : place_in(all, change.id);
      op_.forward_steps.push_back({change.kind, static_cast<std::uint8_t>(index)});
    }
  }

  struct Change {
    StepKind kind = StepKind::allocate;
    TensorId id = 0;
  };

  BlockBuilder& block_;
  const RingShapes& shapes_;
  Op& op_;
  DType half_;
  bool last_ = false;
  Alternating<TensorId> merged_;
  Alternating<TensorId> merged_sums_;
  Alternating<Answer> answers_;
  std::array<TensorId, 4> wide_{};
  std::array<TensorId, 3> narrow_{};
  std::vector<Change> course_;
};

}  // namespace

void write_ring_forward(BlockBuilder& block, const RingShapes& shapes, Op& op) {
  RingForward(block, shapes, op).write(shapes.ranks);
}

}  // namespace memest
