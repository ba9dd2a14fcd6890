// Attention over a sequence that lies on several of torchtitan's ranks.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <vector>

#include "models.hpp"

namespace memest {
namespace {

LoweringPolicy torchtitan(std::int64_t context) {
  LoweringPolicy policy = policy_for(Framework::torchtitan, AttentionKernel::sdpa);
  policy.implementation.norm = NormKernel::fused;
  policy.context = context;
  return policy;
}

Op core(const Block& block) {
  return *std::find_if(block.ops.begin(), block.ops.end(),
                       [](const Op& op) { return op.kind == OpKind::attention; });
}

Op ring(std::int64_t ranks) { return core(layer(lowered(llama(), torchtitan(ranks)))); }

/// What is there after `steps`; the test fails where one makes what is there, or ends what is not.
std::set<std::size_t> left_by(const std::vector<Step>& steps) {
  std::set<std::size_t> there;
  for (const Step& step : steps) {
    if (step.kind == StepKind::allocate) CHECK(there.insert(step.tensor).second);
    if (step.kind == StepKind::free) CHECK(there.erase(step.tensor) == 1);
  }
  return there;
}

}  // namespace

TEST_CASE("a ring's forward leaves its outputs, its backward two gradients") {
  for (const std::int64_t ranks : {2, 3, 4, 7, 64}) {
    INFO(ranks);
    const Op op = ring(ranks);
    std::set<std::size_t> outputs;
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      outputs.insert(op.forward_scratch.size() + i);
    CHECK(left_by(op.forward_steps) == outputs);
    // One of queries, and one of keys and values together.
    std::set<std::size_t> gradients;
    for (const InputGradient& one : op.gradients) gradients.insert(one.tensor);
    CHECK(gradients.size() == 2);
    CHECK(left_by(op.backward_steps) == gradients);
  }
}

TEST_CASE("more ranks make a longer ring of no more tensors at a time") {
  const Op few = ring(4);
  const Op many = ring(64);
  CHECK(many.forward_scratch.size() == few.forward_scratch.size());
  CHECK(many.backward_tensors == few.backward_tensors);
  CHECK(many.forward_steps.size() > few.forward_steps.size());
  CHECK(many.kernels == 64);
}

TEST_CASE("a ring attends to the whole sequence") {
  CHECK(ring(4).forward.flops == ring(1).forward.flops * Expr(Symbol::context));
  CHECK(ring(4).backward.flops == ring(1).backward.flops * Expr(Symbol::context));
}

TEST_CASE("context ranks keep their rows of the rotations, and an output by heads and by tokens") {
  const Expr b = Symbol::micro_batch;
  const Expr s = Symbol::seq_len;
  const Expr d = Symbol::head_dim;
  const Expr by_tokens = Expr(2) * b * s * Expr(Symbol::heads) * d;
  const auto kept = [](std::int64_t ranks) {
    return layer(lowered(llama(), torchtitan(ranks))).saved_bytes(false);
  };
  CHECK(kept(4) == kept(1) + Expr(4) * b * s * d + by_tokens);
  CHECK(kept(4) == kept(2));
}

TEST_CASE("a ring gathers keys and values in both passes, and sends their gradients on in fp32") {
  const Expr pair = Expr(4) * Expr(Symbol::micro_batch) * Expr(Symbol::seq_len) *
                    Expr(Symbol::kv_heads) * Expr(Symbol::head_dim);
  const Op op = ring(4);
  const Message gathers{MessageKind::all_gather, RankGroup::context, pair * Expr(Symbol::context)};
  CHECK(op.forward_messages == std::vector<Message>{gathers});
  REQUIRE(op.backward_messages.size() == 2);
  CHECK(op.backward_messages[0] == gathers);
  CHECK(op.backward_messages[1] == Message{MessageKind::send, RankGroup::context, pair + pair,
                                           /*asynchronous=*/true, /*times=*/4});
}

TEST_CASE("torchtitan's context ranks refuse attention other than cuDNN's") {
  LoweringPolicy policy = torchtitan(2);
  policy.implementation.attention = AttentionKernel::sdpa_math;
  CHECK(std::holds_alternative<Unavailable>(lower(llama(), policy)));
}

}  // namespace memest
