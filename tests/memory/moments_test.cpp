// The rules of life on a block small enough to follow by hand: y = x + relu(x·W), bf16.
#include "../../src/memory/moments.hpp"

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
  linear.backward_scratch = {kScratch};
  Op relu;
  relu.kind = OpKind::activation;
  relu.name = "relu";
  relu.inputs = {kProduct};
  relu.outputs = {kPositive};
  relu.saved = {kPositive};
  Op add;
  add.kind = OpKind::add;
  add.name = "add";
  add.inputs = {kX, kPositive};
  add.outputs = {kY};
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
  REQUIRE(moments.backward.size() == 3);
  // add hands y's gradient on to both inputs: one buffer.
  CHECK(moments.backward[0].op == "add");
  CHECK(value(moments.backward[0].saved) == 2 * kStream);
  CHECK(value(moments.backward[0].live) == kStream);
  // relu: that buffer stays for x, and the product's gradient is new.
  CHECK(value(moments.backward[1].live) == 2 * kStream);
  // linear: relu's result is freed; x's second gradient arrives beside the first, with scratch.
  CHECK(value(moments.backward[2].saved) == kStream);
  CHECK(value(moments.backward[2].live) == 3 * kStream + 2 * 50);
  CHECK(value(moments.backward[1].gradient_elements) == 0);
  CHECK(value(moments.backward[2].gradient_elements) == kWeight);
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

TEST_CASE("views of one output take their gradients back to it in a new buffer", "[memory]") {
  Block block = residual_block();
  // relu reads one half of the product, the sum reads the other.
  Tensor half = block.tensors[kProduct];
  half.shape = {Expr(500)};
  half.storage = kProduct;
  block.tensors.push_back(half);
  block.tensors.push_back(half);
  block.ops[1].inputs = {6};
  block.ops[2].inputs = {7, kPositive};
  const BlockMoments moments = moments_of(block, BlockPass::keep_all);
  REQUIRE(moments.backward.size() == 4);
  // Two halves on their way, and the whole that takes them.
  CHECK(value(moments.backward[2].live) == 2 * kStream / 2 + kStream);
}

}  // namespace
}  // namespace memest
