// Codes of 4 bits in DeepSpeed's ZeRO 3, and a forward that has not the calls of the one before it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/timeline.hpp"
#include "memory/deepspeed/module_calls.hpp"
#include "memory/deepspeed/weight_coordinator.hpp"

namespace memest {
namespace {

using namespace testing;

Job adapted_job() {
  Job job = job_of("mixed", "adamw");
  job.model = llama(4, 256, 4, 2, 704);
  job.model.adapter = Adapter{.rank = 8, .targets = {"o_proj"}};
  job.training->micro_batch = 1;
  job.training->seq_len = 128;
  job.training->steps = 1;
  job.parallelism.data = 4;
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.deepspeed.persistence_threshold = 0;
  job.parallelism.deepspeed.zero_init = false;
  return job;
}

/// Products of codes depend on the GPU.
Timeline timeline_of(const Job& job) {
  LoweringPolicy policy = policy_of(*job.training, kHopper);
  policy.multiprocessors = 132;
  policy.in_pieces = true;
  return std::get<Timeline>(write_timeline(std::get<Graph>(lower(job.model, policy)), job));
}

/// Bytes of gathered weights alive when the backward of the first step begins.
std::int64_t gathered_behind_forward(const Job& job) {
  const Timeline timeline = timeline_of(job);
  const auto backward = std::ranges::find(timeline.spans, Phase::backward, &Span::phase);
  REQUIRE(backward != timeline.spans.end());
  std::int64_t alive = 0;
  for (std::size_t i = 0; i < backward->begin; ++i) {
    const Storage& storage = timeline.storages[timeline.events[i].storage];
    if (storage.label.holding != Holding::gathered_weights) continue;
    alive += timeline.events[i].kind == EventKind::allocate ? storage.bytes : -storage.bytes;
  }
  return alive;
}

/// Three weights of 8 elements over 4 ranks, a module each.
struct Coordinated {
  Timeline timeline;
  Recorder recorder{timeline};
  WeightCoordinator coordinator{
      {.prefetch_bucket = 1000, .max_live = 1000, .max_reuse_distance = 0, .ranks = 4},
      std::vector<WeightCoordinator::Weight>(3, {8, 0}),
      {{0}, {1}, {2}},
      recorder};

  void call(WeightCoordinator::Module module) {
    coordinator.before_forward(module);
    coordinator.after_forward(module);
  }
  [[nodiscard]] std::int64_t alive() const {
    std::int64_t bytes = 0;
    for (const Event& event : timeline.events) {
      const std::int64_t own = timeline.storages[event.storage].bytes;
      bytes += event.kind == EventKind::allocate ? own : -own;
    }
    return bytes;
  }
};

}  // namespace

TEST_CASE("a node of codes holds what they were gathered in as long as the graph lives",
          "[memory]") {
  Job job = adapted_job();
  job.model.quantized = QuantizedWeights{};
  // Half a byte an element: of the first layer those behind the first adapter, whose inputs want a
  // gradient, of the others all.
  const std::int64_t feed_forward = 3 * 256 * 704 / 2;
  const std::int64_t attention = (256 * 256 + 2 * 256 * 128 + 256 * 256) / 2;
  const std::int64_t held = 4 * feed_forward + 3 * attention;
  CHECK(gathered_behind_forward(job) == held);
  // A checkpoint's first forward has nodes too, but a reentrant one's; the embeddings are asked for
  // a gradient there, and so are the inputs of all products.
  job.training->recompute = FullRecompute{};
  CHECK(gathered_behind_forward(job) == 4 * (feed_forward + attention));
  job.training->recompute = FullRecompute{.reentrant = true};
  CHECK(gathered_behind_forward(job) == 0);
  // Whole weights are saved as parameters, which go with their module.
  job.model.quantized.reset();
  job.training->recompute = NoRecompute{};
  CHECK(gathered_behind_forward(job) == 0);
}

TEST_CASE("codes are cut as what their storage type holds of them", "[memory]") {
  for (const DType storage : {DType::uint8, DType::bf16, DType::fp32}) {
    Job job = adapted_job();
    job.model.quantized = QuantizedWeights{.storage = storage};
    job.training->recompute = FullRecompute{.reentrant = true};
    const Timeline timeline = timeline_of(job);
    std::vector<std::int64_t> pieces;
    for (const Storage& one : timeline.storages) {
      const bool piece = one.label.origin == Origin::loop &&
                         one.label.tensor == std::uint16_t(LoopTensor::parameter_shard);
      if (piece && one.label.holding == Holding::weights) pieces.push_back(one.bytes);
    }
    // 256 by 704 elements in half a byte each, over 4 ranks.
    CHECK(std::ranges::count(pieces, 256 * 704 / 2 / 4) == 3 * 4);
  }
}

TEST_CASE("a call that is not the one written down ends the list, until the next forward",
          "[memory]") {
  Coordinated of;
  of.coordinator.begin_run();
  for (WeightCoordinator::Module module : {0U, 1U, 2U}) of.call(module);
  of.coordinator.begin_run();
  of.call(0);
  CHECK(of.alive() == 2 * 2 * 8);  // the other two in one tensor, ahead
  of.coordinator.before_forward(2);
  CHECK(of.alive() == 2 * 8);  // they have gone, and it has come again
  of.coordinator.after_forward(2);
  // Nothing is ahead, in this run and in the next, which writes down its own calls.
  of.call(1);
  CHECK(of.alive() == 0);
  of.coordinator.begin_run();
  of.call(0);
  CHECK(of.alive() == 0);
  of.call(2);
  of.coordinator.begin_run();
  of.call(0);
  CHECK(of.alive() == 2 * 8);
}

TEST_CASE("behind a forward under no_grad no hook ends the backward of the one before",
          "[memory]") {
  Coordinated of;
  of.coordinator.begin_run();
  of.call(0);
  of.call(1);
  of.coordinator.before_evaluation(0);
  of.coordinator.after_forward(0);
  of.coordinator.before_backward(1);
  of.coordinator.after_backward(1);
  CHECK(of.alive() == 0);
  of.coordinator.before_backward(0);
  of.coordinator.after_backward(0);
  CHECK(of.alive() == 2 * 8);
  of.coordinator.end_backward();
  CHECK(of.alive() == 0);
}

TEST_CASE("with its adapters off a model calls what it would without them", "[memory]") {
  const Job job = adapted_job();
  Job plain = job;
  plain.model.adapter.reset();
  const auto layer_of = [](const Graph& graph) {
    return *std::ranges::find_if(graph.blocks, &Block::checkpointable);
  };
  const Block adapted = layer_of(lowered(job));
  const Block without = layer_of(lowered(plain));
  const std::vector<ModuleCall> expected = module_calls(without, {});
  const auto kept = calls_without_adapters(adapted, module_calls(adapted, {}), without);
  // One more: lora.Linear around the base layer, which reads no matrix of its adapter.
  REQUIRE(kept.size() == expected.size() + 1);
  std::size_t next = 0;
  for (const PlainCall& one : kept) {
    CHECK(one.call.reads.empty());
    const bool same = one.call.begin == expected[next].begin && one.call.end == expected[next].end;
    if (same && next + 1 < expected.size()) ++next;
  }
  CHECK(next + 1 == expected.size());
}

}  // namespace memest
