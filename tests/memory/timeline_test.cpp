// The rules of eager PyTorch, each on a graph of a few operators.
#include "memest/memory/timeline.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "memest/memory/alive_ledger.hpp"
#include "memest/memory/step_replay.hpp"
#include "memest/memory/storage_maker.hpp"
#include "timeline_blocks.hpp"

namespace memest::testing {
namespace {

/// x · w, which saves both; its result is the block's.
Block scaled_batch() {
  BlockSketch block("first");
  const TensorId x = block.input(8);
  const TensorId w = block.tensor("w", 8, Role::parameter);
  const TensorId h = block.tensor("h", 8);
  Op& op = block.op(OpKind::multiply, {x, w}, {h});
  op.saved = {x, w};
  differentiate(op, {w});
  return std::move(block).take();
}

Block sum_of_input() {
  BlockSketch block("loss");
  const TensorId h = block.input(8);
  const TensorId loss = block.tensor("loss", 1);
  Op& op = block.op(OpKind::reduce, {h}, {loss});
  op.releases = {h};
  differentiate(op, {h});
  return std::move(block).take();
}

/// A layer that saves what it makes: y = f(x), kept until its backward.
Block layer(bool checkpointable = false) {
  BlockSketch block("layer");
  const TensorId x = block.input(8);
  const TensorId inner = block.tensor("inner", 16);
  const TensorId y = block.tensor("y", 8);
  Op& widen = block.op(OpKind::activation, {x}, {inner});
  widen.saved = {x};
  differentiate(widen, {x});
  Op& narrow = block.op(OpKind::activation, {inner}, {y});
  narrow.saved = {inner};
  narrow.releases = {inner, x};
  differentiate(narrow, {inner});
  return std::move(block).take(checkpointable);
}

std::string forward_of(const Graph& graph, const Job& job) {
  return events_of(timeline_of(graph, job), graph, Phase::forward);
}
std::string backward_of(const Graph& graph, const Job& job) {
  return events_of(timeline_of(graph, job), graph, Phase::backward);
}

TEST_CASE("a result lives as long as the program or a saved slot refers to it", "[timeline]") {
  const Graph graph = graph_of({scaled_batch(), layer(), sum_of_input()});
  // h stays after the layer has returned: its first node saved it. y is the model's output.
  CHECK(forward_of(graph, one_step()) == "+h +inner +y +loss -y");
  CHECK(backward_of(graph, one_step()) ==
        "+gradient of the loss +dinput +dinner -dinput -inner +dinput -dinner -h +dw -dinput "
        "-gradient of the loss");
}

TEST_CASE("what nothing saves goes with its last use", "[timeline]") {
  Block unsaved = layer();
  for (Op& op : unsaved.ops) op.saved.clear();
  const Graph graph = graph_of({scaled_batch(), unsaved, sum_of_input()});
  CHECK(forward_of(graph, one_step()) == "+h +inner +y -inner -h +loss -y");
}

TEST_CASE("a checkpoint keeps its input and runs again up to the last tensor saved", "[timeline]") {
  Job job = one_step();
  job.training->recompute = FullRecompute{};
  const Graph graph = graph_of({scaled_batch(), layer(true), sum_of_input()});
  CHECK(forward_of(graph, job) == "+h +inner +y -inner +loss -y");
  // The second operator only saves what it reads: it does not run again.
  CHECK(backward_of(graph, job) ==
        "+gradient of the loss +dinput +again inner +dinner -again inner -dinput +dinput -dinner "
        "-h +dw -dinput -gradient of the loss");
}

TEST_CASE("a reentrant checkpoint runs the whole forward again and holds the incoming gradient",
          "[timeline]") {
  Job job = one_step();
  job.training->recompute = FullRecompute{true};
  const Graph graph = graph_of({scaled_batch(), layer(true), sum_of_input()});
  CHECK(backward_of(graph, job) ==
        "+gradient of the loss +dinput +again inner +again y +dinner -again inner +dinput -dinner "
        "-again y -dinput -h +dw -dinput -gradient of the loss");
}

/// Two uses of one tensor: y = f(x) + x. `view` says how the gradient comes back to x.
Graph with_two_uses(Reach reach, bool shared_gradient) {
  BlockSketch block("layer");
  const TensorId x = block.input(8);
  const TensorId branch = block.tensor("branch", 8);
  const TensorId y = block.tensor("y", 8);
  Op& function = block.op(OpKind::activation, {x}, {branch});
  differentiate(function, {x});
  function.gradients.front().reach = reach;
  Op& sum = block.op(OpKind::add, {x, branch}, {y});
  sum.releases = {branch, x};
  if (shared_gradient) {
    sum.gradients = {{x, InputGradient::kHandedOn, reach}, {branch}};
  } else {
    differentiate(sum, {x, branch});
    sum.gradients.front().reach = reach;
  }
  return graph_of({scaled_batch(), std::move(block).take(), sum_of_input()});
}

TEST_CASE("a second gradient is added in place where nothing else holds the first", "[timeline]") {
  const Graph graph = with_two_uses(Reach::directly, false);
  CHECK(backward_of(graph, one_step()) ==
        "+gradient of the loss +dinput +dinput +dbranch -dinput +dinput -dbranch -dinput +dw "
        "-dinput -gradient of the loss");
}

TEST_CASE("a gradient that was reached through a view is added out of place", "[timeline]") {
  const Graph graph = with_two_uses(Reach::through_view, false);
  CHECK(backward_of(graph, one_step()) ==
        "+gradient of the loss +dinput +dinput +dbranch -dinput +dinput -dbranch +dinput -dinput "
        "-dinput +dw -dinput -gradient of the loss");
}

TEST_CASE("an addition hands one gradient to both inputs", "[timeline]") {
  // When the branch's own gradient arrives the sum's is held by x's slot alone.
  const Graph graph = with_two_uses(Reach::directly, true);
  CHECK(backward_of(graph, one_step()) ==
        "+gradient of the loss +dinput +dinput -dinput +dw -dinput -gradient of the loss");
}

TEST_CASE("a parameter's first gradient is adopted, a later one added in place", "[timeline]") {
  Job job = one_step();
  job.training->gradient_accumulation = 2;
  const Graph graph = graph_of({scaled_batch(), sum_of_input()});
  const Timeline timeline = timeline_of(graph, job);
  std::int64_t made = 0;
  std::int64_t freed = 0;
  for (const Span& span : timeline.spans) {
    if (span.phase != Phase::backward) continue;
    for (std::uint32_t i = span.begin; i < span.end; ++i) {
      const Event event = timeline.events[i];
      if (timeline.storages[event.storage].label.holding != Holding::gradients) continue;
      ++(event.kind == EventKind::allocate ? made : freed);
    }
  }
  CHECK(made == 2);
  CHECK(freed == 1);
  CHECK(timeline.spans.back().phase == Phase::zero_grad);
  CHECK(timeline.spans.back().end - timeline.spans.back().begin == 1);
}

TEST_CASE("zero_grad to zeros frees nothing", "[timeline]") {
  Job job = one_step();
  job.training->zero_grad = ZeroGrad::zeros;
  const Graph graph = graph_of({scaled_batch(), sum_of_input()});
  CHECK(events_of(timeline_of(graph, job), graph, Phase::zero_grad).empty());
}

TEST_CASE("autocast keeps a weight's copy until the forward ends, or as long as it is saved",
          "[timeline]") {
  BlockSketch block("layer");
  const TensorId x = block.input(8);
  const TensorId w = block.tensor("w", 8, Role::parameter);
  const TensorId cast = block.tensor("cast", 8, Role::cast_parameter);
  const TensorId again = block.tensor("again", 8, Role::cast_parameter);
  const TensorId y = block.tensor("y", 8);
  differentiate(block.op(OpKind::cast, {w}, {cast}), {w});
  Op& product = block.op(OpKind::linear, {x, cast}, {y});
  product.releases = {cast};
  differentiate(product, {x, cast});
  block.op(OpKind::cast, {w}, {again}).releases = {again};
  Op& last = block.op(OpKind::activation, {y}, {block.tensor("z", 8)});
  last.releases = {y, x};
  differentiate(last, {y});
  const Graph graph = graph_of({scaled_batch(), std::move(block).take(), sum_of_input()});
  // The second cast finds the copy; its end is that of the autocast context.
  CHECK(forward_of(graph, one_step("amp-bf16")) == "+h +cast +y +z -y -h +loss -cast -z");
}

TEST_CASE("a library's workspace is made once in the forward and once in the autograd thread",
          "[timeline]") {
  Block block = scaled_batch();
  block.ops.front().workspace = Workspace::cublas_lt;
  const Graph graph = graph_of({block, sum_of_input()});
  Job job = one_step();
  job.training->steps = 2;
  const Timeline timeline = timeline_of(graph, job);
  std::vector<std::int64_t> sizes;
  for (const Storage& storage : timeline.storages) {
    if (storage.label.holding == Holding::workspaces) sizes.push_back(storage.bytes);
  }
  // cuBLAS's 32 MiB and cublasLt's 1 MiB forward; a backward is plain products.
  CHECK(sizes == std::vector<std::int64_t>{32 * kMiB, kMiB, 32 * kMiB});
}

TEST_CASE("the loop keeps a batch and a loss until the next one is there", "[timeline]") {
  Job job = one_step();
  job.training->steps = 2;
  const Graph graph = graph_of({scaled_batch(), sum_of_input()});
  const Timeline timeline = timeline_of(graph, job);
  std::vector<std::int64_t> balance(timeline.storages.size(), 0);
  for (const Event& event : timeline.events) {
    balance[event.storage] += event.kind == EventKind::allocate ? 1 : -1;
    CHECK(balance[event.storage] >= 0);
  }
  std::int64_t left = 0;
  for (StorageId id = 0; id < balance.size(); ++id) left += balance[id];
  CHECK(left == 1);  // the last loss; the inventory of this graph is empty
}

/// Dropout of the block's input: a mask that it saves, and its result.
Block dropped() {
  BlockSketch block("dropped");
  const TensorId x = block.input(8);
  const TensorId mask = block.tensor("mask", 2);
  const TensorId y = block.tensor("y", 8);
  Op& op = block.op(OpKind::dropout, {x}, {mask, y});
  op.saved = {mask};
  op.releases = {x, mask};
  differentiate(op, {x});
  Block made = std::move(block).take();
  made.output = y;
  return made;
}

TEST_CASE("an evaluation drops nothing out and keeps nothing", "[timeline]") {
  Job job = one_step();
  job.training->implementation.loop = LoopKind::nanogpt;
  const Graph graph = graph_of({scaled_batch(), dropped(), sum_of_input()});
  const Timeline timeline = timeline_of(graph, job);
  const Span& evaluation = timeline.spans[2];  // after the model and the first batch
  REQUIRE(evaluation.phase == Phase::forward);
  REQUIRE(evaluation.micro_step == 0);
  std::int64_t alive = 0;
  std::int64_t made = 0;
  for (std::uint32_t i = evaluation.begin; i < evaluation.end; ++i) {
    const bool allocates = timeline.events[i].kind == EventKind::allocate;
    alive += allocates ? 1 : -1;
    made += allocates ? 1 : 0;
  }
  CHECK(alive == 0);
  CHECK(made == 8);  // of two sets: token ids, labels, the product, the loss
}

TEST_CASE("DDP holds a second copy of the gradients in its buckets", "[timeline]") {
  Job job = one_step();
  Graph graph = graph_of({scaled_batch(), sum_of_input()});
  // The first bucket has what the model defines.
  graph.parameters.parameters = {{.name = "first.w", .shape = {8}}};
  const auto sum_of = [](const Timeline& timeline, Origin origin) {
    std::int64_t bytes = 0;
    for (const Storage& storage : timeline.storages) {
      const Label& label = storage.label;
      if (label.holding != Holding::gradients || label.step > 1) continue;
      if (label.origin == origin) bytes += storage.bytes;
    }
    return bytes;
  };
  CHECK(sum_of(timeline_of(graph, job), Origin::loop) == 0);
  job.hardware.count = job.parallelism.data = 2;
  const Timeline replicated = timeline_of(graph, job);
  CHECK(sum_of(replicated, Origin::loop) > 0);
  CHECK(sum_of(replicated, Origin::loop) == sum_of(replicated, Origin::backward));
}

/// Asks for the scratch of a running sum over a row, which takes no device to know: 1023 B.
KernelLaunch scan_of_a_row() {
  KernelLaunch launch;
  launch.kind = KernelLaunch::Kind::scan;
  launch.reduced = Expr(8);
  return launch;
}

/// As scaled_batch(), with a kernel in both passes that asks for as much as its first tensor has.
Graph with_scratch() {
  BlockSketch block("first");
  const TensorId x = block.input(1023);
  const TensorId w = block.tensor("w", 8, Role::parameter);
  const TensorId h = block.tensor("h", 8);
  Op& op = block.op(OpKind::multiply, {x, w}, {h});
  op.saved = {x, w};
  differentiate(op, {w});
  op.forward_launches = {scan_of_a_row()};
  op.backward_launches = {scan_of_a_row()};
  op.backward_steps.push_back({StepKind::launch, 0});
  return graph_of({std::move(block).take(), sum_of_input()});
}

TEST_CASE("scratch of a kernel is its operation's, and none of its tensors", "[timeline]") {
  const Graph graph = with_scratch();
  const Timeline timeline = timeline_of(graph, one_step());
  std::vector<std::string> names;
  std::vector<StorageMaker> makers;
  for (StorageId id = 0; id < timeline.storages.size(); ++id) {
    if (timeline.storages[id].label.tensor != kKernelScratch) continue;
    names.push_back(storage_name(timeline, graph, id));
    makers.push_back(maker_of(timeline, graph, id));
  }
  CHECK(names ==
        std::vector<std::string>{"first, op, scratch", "first, op, scratch of the backward"});
  CHECK(makers == std::vector<StorageMaker>{{"first", "op", "scratch"},
                                            {"first", "op", "scratch of the backward"}});
}

/// One byte an element would be the input's formula: it says the same bytes, of another thing.
TEST_CASE("a term of scratch alone is no formula of the block's first tensor", "[timeline]") {
  const Graph graph = with_scratch();
  const Job job = one_step();
  const Timeline timeline = timeline_of(graph, job);
  const auto scratch =
      std::find_if(timeline.storages.begin(), timeline.storages.end(), [](const Storage& storage) {
        return storage.label.origin == Origin::forward && storage.label.tensor == kKernelScratch;
      });
  REQUIRE(scratch != timeline.storages.end());
  REQUIRE(scratch->bytes == 1023);
  PeakMoment peak;
  peak.alive = {{static_cast<StorageId>(scratch - timeline.storages.begin()), Bytes(2048)}};
  Ledger closed;
  closed.bindings = graph.sizes;
  const Ledger ledger = alive_ledger({graph, job, timeline, peak, closed});
  REQUIRE(ledger.terms.size() == 2);  // and the rounding
  CHECK(ledger.terms.front().rule == "counted in the timeline: 1 storage");
}

TEST_CASE("DeepSpeed's ZeRO has no timeline yet", "[timeline]") {
  Job job = one_step();
  job.hardware.count = job.parallelism.data = 2;
  job.parallelism.zero = ZeroStage::optimizer_gradients;
  const auto answer = write_timeline(graph_of({scaled_batch(), sum_of_input()}), job);
  CHECK(std::holds_alternative<Unavailable>(answer));
}

}  // namespace
}  // namespace memest::testing
