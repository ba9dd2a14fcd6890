// What the engine adds up beside the operations of a step.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <utility>
#include <vector>

#include "memest/time/work.hpp"
#include "small_graph.hpp"

namespace memest {
namespace {

using test::linear_op;
using test::stack_job;
using test::stack_of;

constexpr std::int64_t kLayers = 2;
constexpr std::int64_t kHidden = 64;
constexpr TensorId kInput = 0;
constexpr TensorId kOutput = 1;

/// A layer of one op that gives its input `gradients` gradients.
Graph graph_of(std::size_t gradients) {
  Op op = linear_op("a", kInput, kOutput);
  op.gradients.assign(gradients, {kInput, InputGradient::kHandedOn});
  Graph graph = stack_of({std::move(op)}, kLayers, kHidden);
  graph.blocks.front().output = kOutput;
  return graph;
}

std::vector<OpWork> sums_in(const Graph& graph) {
  std::vector<OpWork> sums = work_of(graph, stack_job(kLayers, kHidden)).ops;
  std::erase_if(sums, [](const OpWork& op) { return op.sums == GradientSums::none; });
  return sums;
}

double bytes_of_input(const Graph& graph) {
  const Bindings sizes = sizes_of(graph, *stack_job(kLayers, kHidden).training);
  return graph.blocks.front().tensors[kInput].bytes().bytes(sizes).as_double();
}

TEST_CASE("A tensor with one user has no sum of gradients") { CHECK(sums_in(graph_of(1)).empty()); }

TEST_CASE("Each gradient behind the first is read with those before, and their sum is written") {
  const Graph graph = graph_of(3);
  const std::vector<OpWork> sums = sums_in(graph);
  REQUIRE(sums.size() == 1);
  CHECK(sums.front().sums == GradientSums::of_block);
  CHECK(sums.front().executions == kLayers);
  CHECK(sums.front().launches.backward == 2);
  CHECK(sums.front().backward_calls.size() == 2);
  CHECK(sums.front().backward.bytes == 2 * 3 * bytes_of_input(graph));
  CHECK(sums.front().backward.flops == 0);
}

TEST_CASE("The next block's gradient of what a block answers comes before the block's own") {
  Graph graph = graph_of(1);
  graph.blocks.front().output = kInput;
  const std::vector<OpWork> sums = sums_in(graph);
  REQUIRE(sums.size() == 1);
  CHECK(sums.front().backward_calls.size() == 1);
}

TEST_CASE("Generated kernels sum what they read") {
  Graph graph = graph_of(3);
  graph.blocks.front().compiled = true;
  CHECK(sums_in(graph).empty());
}

TEST_CASE("Of a tensor that all layers read the first gradient is no sum") {
  Graph graph = graph_of(1);
  graph.blocks.front().tensors[kInput].shared = true;
  const std::vector<OpWork> sums = sums_in(graph);
  REQUIRE(sums.size() == 1);
  CHECK(kLayers * sums.front().launches.backward == Catch::Approx(kLayers - 1));
  CHECK(kLayers * sums.front().backward.bytes ==
        Catch::Approx((kLayers - 1) * 3 * bytes_of_input(graph)));
}

TEST_CASE("A weight of layers that share theirs is summed once less than it is used") {
  Graph graph = graph_of(1);
  graph.blocks.front().tensors[kInput].role = Role::parameter;
  CHECK(sums_in(graph).empty());
  graph.shared_layers = SharedLayers{.distinct = 1};
  const std::vector<OpWork> sums = sums_in(graph);
  REQUIRE(sums.size() == 1);
  CHECK(kLayers * sums.front().launches.backward == Catch::Approx(kLayers - 1));
}

TEST_CASE("The rows of a bias's gradient are read, and launched with the layer's") {
  Graph graph = graph_of(1);
  Block& layer = graph.blocks.front();
  layer.tensors[2].role = Role::parameter;
  layer.tensors[2].shape = {test::kH};
  Op& op = layer.ops.front();
  op.inputs.push_back(2);
  op.gradients.push_back({2, InputGradient::kHandedOn});
  const std::vector<OpWork> sums = sums_in(graph);
  REQUIRE(sums.size() == 1);
  CHECK(sums.front().backward.bytes == bytes_of_input(graph));
  CHECK(sums.front().launches.backward == 0);
  op.workspace = Workspace::transformer_engine;
  CHECK(sums_in(graph).empty());
}

}  // namespace
}  // namespace memest
