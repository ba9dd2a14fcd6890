// How many kernels an operation's passes launch.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <utility>
#include <vector>

#include "memest/time/work.hpp"
#include "small_graph.hpp"

namespace memest {
namespace {

using test::linear_op;
using test::stack_job;
using test::stack_of;

constexpr std::int64_t kHidden = 64;

constexpr TensorId kWeight = 2;

/// The launches of `op`, the only one of a stack's layers; tensors 0 and 1 are [b, s, h].
OpLaunches launches_of(Op op, CompileScope compile = CompileScope::off) {
  Graph graph = stack_of({std::move(op)}, 2, kHidden);
  Tensor& weight = graph.blocks.front().tensors[kWeight];
  weight.role = Role::parameter;
  weight.shape = {test::kH, test::kH};
  Job job = stack_job(2, kHidden);
  job.training->implementation.compile = compile;
  return work_of(graph, job).ops.front().launches;
}

/// A scaling whose backward makes three tensors, of which no kernel writes the last.
Op scaling() {
  Op op;
  op.kind = OpKind::scale;
  op.name = "scaling";
  op.inputs = {0};
  op.outputs = {1};
  op.forward = {0, test::kB * test::kS * test::kH};
  op.backward = op.forward;
  op.backward_tensors = {{0, DType::bf16}, {0, DType::bf16}, {0, DType::bf16, false}};
  op.backward_steps = {{StepKind::allocate, 0},
                       {StepKind::allocate, 1},
                       {StepKind::free, 0},
                       {StepKind::allocate, 2}};
  return op;
}

}  // namespace

TEST_CASE("A product is one launch forward and two backward") {
  const OpLaunches launches = launches_of(linear_op("a", 0, 1));
  CHECK(launches.forward == 1);
  CHECK(launches.backward == 2);
}

TEST_CASE("A backward of many kernels launches one for every tensor that it writes") {
  CHECK(launches_of(scaling()).forward == 1);
  CHECK(launches_of(scaling()).backward == 2);
}

TEST_CASE("A compiled operation launches what it calls") {
  CHECK(launches_of(scaling(), CompileScope::blocks).backward == 1);
}

TEST_CASE("Grouped products over weights apart are a call for each of them") {
  Op op = linear_op("experts", 0, 1);
  const OpLaunches one = launches_of(op);
  op.inputs = {0, kWeight, kWeight, kWeight, kWeight};
  const OpLaunches four = launches_of(op);
  CHECK(four.forward == 4 * one.forward);
  CHECK(four.backward == 4 * one.backward);
}

TEST_CASE("Neighbouring captured parts are one graph, which takes two launches") {
  Graph graph = stack_of(
      {linear_op("a", 0, 1), linear_op("b", 0, 1), linear_op("c", 0, 1), linear_op("d", 0, 1)}, 2,
      kHidden);
  Block& layer = graph.blocks.front();
  layer.captured_parts = {
      {GraphScope::attn, 0, 1}, {GraphScope::moe_router, 1, 2}, {GraphScope::moe, 2, 4}};
  Job job = stack_job(2, kHidden);
  CudaGraphs& graphs = job.training->implementation.cuda_graph;
  const auto launches = [&] {
    std::vector<double> forward;
    for (const OpWork& op : work_of(graph, job).ops) {
      if (op.block == 0 && op.sums == GradientSums::none) forward.push_back(op.launches.forward);
    }
    return forward;
  };
  CHECK(launches() == std::vector<double>{1, 1, 1, 1});
  const auto capture = [&](GraphScope scope) {
    graphs.scopes[static_cast<std::size_t>(scope)] = true;
  };
  capture(GraphScope::attn);
  CHECK(launches() == std::vector<double>{2, 1, 1, 1});
  capture(GraphScope::moe_router);
  CHECK(launches() == std::vector<double>{2, 0, 1, 1});
  // moe has the router too.
  graphs = {};
  capture(GraphScope::moe);
  CHECK(launches() == std::vector<double>{1, 2, 0, 0});
  graphs = {.full_iteration = true};
  CHECK(launches() == std::vector<double>{0, 0, 0, 0});
  // What comes before a block's first part is not captured.
  graphs = {};
  capture(GraphScope::attn);
  layer.captured_parts = {{GraphScope::attn, 1, 3}};
  CHECK(launches() == std::vector<double>{1, 2, 0, 1});
}

}  // namespace memest
