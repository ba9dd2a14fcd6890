// The rules of life on a block small enough to follow by hand: y = x + relu(x·W), bf16.
#include "memory/moments/moments.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::int64_t kStream = 2 * 1000;  // bytes of x, of x·W, of relu's result and of y
constexpr std::int64_t kWeight = 400;       // elements of W

enum : TensorId { kX, kW, kProduct, kPositive, kY, kScratch };

Tensor tensor(TensorId id, std::int64_t elements, Role role) {
  Tensor result;
  result.shape = {Expr(elements)};
  result.dtype = DType::bf16;
  result.role = role;
  result.storage = id;
  return result;
}

Block residual_block() {
  Block block;
  block.name = "layer";
  block.tensors = {tensor(kX, 1000, Role::input),
                   tensor(kW, kWeight, Role::parameter),
                   tensor(kProduct, 1000, Role::activation),
                   tensor(kPositive, 1000, Role::activation),
                   tensor(kY, 1000, Role::activation),
                   tensor(kScratch, 50, Role::workspace)};
  block.input = kX;
  block.checkpointable = true;
  Op linear;
  linear.kind = OpKind::linear;
  linear.name = "linear";
  linear.inputs = {kX, kW};
  linear.outputs = {kProduct};
  linear.saved = {kX, kW};
  // Scratch first, then both gradients.
  linear.backward_tensors = {{kScratch, DType::bf16}, {kX, DType::bf16}, {kW, DType::bf16}};
  linear.backward_steps = {{StepKind::allocate, 0},
                           {StepKind::allocate, 1},
                           {StepKind::allocate, 2},
                           {StepKind::free, 0}};
  linear.gradients = {{kX, 1, Reach::directly}, {kW, 2, Reach::directly}};
  Op relu;
  relu.kind = OpKind::activation;
  relu.name = "relu";
  relu.inputs = {kProduct};
  relu.outputs = {kPositive};
  relu.saved = {kPositive};
  relu.backward_tensors = {{kProduct, DType::bf16}};
  relu.backward_steps = {{StepKind::allocate, 0}};
  relu.gradients = {{kProduct, 0, Reach::directly}};
  relu.releases = {kProduct};
  Op add;
  add.kind = OpKind::add;
  add.name = "add";
  add.inputs = {kX, kPositive};
  add.outputs = {kY};
  add.gradients = {{kX, InputGradient::kHandedOn, Reach::directly},
                   {kPositive, InputGradient::kHandedOn, Reach::directly}};
  add.releases = {kPositive, kX};
  block.output = kY;
  block.ops = {linear, relu, add};
  return block;
}

std::int64_t value(const Expr& formula) { return narrow_to_int64(formula.evaluate({})); }

TEST_CASE("forward: what later operations read is alive beside what autograd keeps", "[memory]") {
  const BlockMoments moments = moments_of(residual_block(), BlockPass::keep_all);
  REQUIRE(moments.forward.size() == 3);
  // linear keeps x; its product is a local.
  CHECK(value(moments.forward[0].saved) == kStream);
  CHECK(value(moments.forward[0].live) == kStream);
  // relu keeps its result; the product it reads is still there.
  CHECK(value(moments.forward[1].saved) == 2 * kStream);
  CHECK(value(moments.forward[1].live) == kStream);
  // add keeps nothing; the product is gone, y is new.
  CHECK(value(moments.forward[2].saved) == 2 * kStream);
  CHECK(value(moments.forward[2].live) == kStream);
}

TEST_CASE("backward: gradients, scratch and what earlier operations kept", "[memory]") {
  const BlockMoments moments = moments_of(residual_block(), BlockPass::keep_all);
  REQUIRE(moments.backward.size() == 4);
  // add hands y's gradient on to both inputs: one buffer.
  CHECK(moments.backward[0].op == "add");
  CHECK(value(moments.backward[0].saved) == 2 * kStream);
  CHECK(value(moments.backward[0].live) == kStream);
  // relu: that buffer stays for x, and the product's gradient is new.
  CHECK(value(moments.backward[1].live) == 2 * kStream);
  // linear: relu's result is freed; x's second gradient is made beside the first, with scratch.
  CHECK(value(moments.backward[2].saved) == kStream);
  CHECK(value(moments.backward[2].live) == 3 * kStream + 2 * 50);
  CHECK(value(moments.backward[1].gradient_elements) == 0);
  CHECK(value(moments.backward[2].gradient_elements) == kWeight);
  // The scratch is gone; the second gradient is added to the first in place.
  CHECK(value(moments.backward[3].live) == 2 * kStream);
}

TEST_CASE("a checkpoint keeps nothing the first time, and its input is the caller's", "[memory]") {
  const BlockMoments first = moments_of(residual_block(), BlockPass::keep_nothing);
  for (const Moment& moment : first.forward) CHECK(moment.saved.is_zero());
  CHECK(value(first.forward[1].live) == 2 * kStream);  // product and relu's result
  const BlockMoments second = moments_of(residual_block(), BlockPass::recompute);
  // The second forward stops after relu, the last to keep something.
  REQUIRE(second.forward.size() == 2);
  CHECK(value(second.backward[0].saved) == kStream);  // relu's result alone
}

TEST_CASE("what the previous block keeps is not counted twice", "[memory]") {
  Block block = residual_block();
  block.tensors[kX].kept_before = true;
  const BlockMoments moments = moments_of(block, BlockPass::keep_all);
  CHECK(moments.forward[0].saved.is_zero());
  CHECK(value(moments_of(block, BlockPass::keep_input_too).forward[0].saved) == kStream);
}

TEST_CASE("a gradient seen through a view is added to in a new buffer", "[memory]") {
  Block block = residual_block();
  block.ops[0].gradients[0].reach = Reach::through_view;
  block.ops[2].gradients[0].reach = Reach::through_view;
  const BlockMoments moments = moments_of(block, BlockPass::keep_all);
  // The gradient that waits, the one that arrives, and their sum.
  CHECK(value(moments.backward.back().live) == 3 * kStream);
}

}  // namespace
}  // namespace memest
