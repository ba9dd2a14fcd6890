// DeepSpeed's ZeRO 3, event by event: which modules a layer calls, when their weights come and go,
// and what becomes of their gradients.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string_view>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/timeline.hpp"
#include "memory/deepspeed/module_calls.hpp"
#include "memory/deepspeed/partitioned_gradients.hpp"
#include "memory/deepspeed/weight_coordinator.hpp"

namespace memest {
namespace {

using namespace testing;

Job partitioned_job() {
  Job job = job_of("mixed", "adamw");
  job.model = llama(4, 256, 4, 2, 704);
  job.training->micro_batch = 1;
  job.training->seq_len = 128;
  job.training->steps = 3;
  job.parallelism.data = 4;
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.deepspeed.reduce_bucket_size = 200'000;
  return job;
}

Timeline timeline_of(const Job& job) {
  return std::get<Timeline>(write_timeline(lowered(job), job));
}

bool is_gathered(const Storage& storage) {
  return storage.label.holding == Holding::gathered_weights;
}

/// Weights of 8 elements each over 4 ranks, a module each.
class Weights {
 public:
  explicit Weights(WeightCoordinator::Settings settings, std::int64_t count = 4)
      : recorder_(timeline_),
        coordinator_(
            with_ranks(settings),
            std::vector<WeightCoordinator::Weight>(static_cast<std::size_t>(count), {8, 0}),
            modules(count), recorder_) {}

  WeightCoordinator& operator*() { return coordinator_; }

  /// A forward and a backward of all modules, one after another.
  void run() {
    coordinator_.begin_run();
    const auto last = static_cast<WeightCoordinator::Module>(modules_);
    for (WeightCoordinator::Module i = 0; i < last; ++i) call(i);
    for (WeightCoordinator::Module i = last; i > 0; --i) {
      coordinator_.before_backward(i - 1);
      coordinator_.after_backward(i - 1);
    }
    coordinator_.end_backward();
  }
  void call(WeightCoordinator::Module module) {
    coordinator_.before_forward(module);
    coordinator_.after_forward(module);
  }

  /// The most bytes alive in the events from `begin` on.
  [[nodiscard]] std::int64_t most_alive(std::size_t begin = 0) const {
    std::int64_t alive = 0;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < timeline_.events.size(); ++i) {
      const Event& event = timeline_.events[i];
      const std::int64_t bytes = timeline_.storages[event.storage].bytes;
      alive += event.kind == EventKind::allocate ? bytes : -bytes;
      if (i >= begin) most = std::max(most, alive);
    }
    return most;
  }
  [[nodiscard]] std::size_t events() const { return timeline_.events.size(); }
  [[nodiscard]] std::vector<std::int64_t> made(std::size_t begin) const {
    std::vector<std::int64_t> bytes;
    for (std::size_t i = begin; i < timeline_.events.size(); ++i) {
      const Event& event = timeline_.events[i];
      if (event.kind == EventKind::allocate)
        bytes.push_back(timeline_.storages[event.storage].bytes);
    }
    return bytes;
  }

 private:
  static WeightCoordinator::Settings with_ranks(WeightCoordinator::Settings settings) {
    settings.ranks = 4;
    return settings;
  }
  std::vector<std::vector<std::uint32_t>> modules(std::int64_t count) {
    modules_ = count;
    std::vector<std::vector<std::uint32_t>> modules;
    for (std::uint32_t i = 0; i < count; ++i) modules.push_back({i});
    return modules;
  }

  Timeline timeline_;
  Recorder recorder_;
  std::int64_t modules_ = 0;
  WeightCoordinator coordinator_;
};

}  // namespace

TEST_CASE("a decoder's layer calls its modules as transformers nests them", "[memory]") {
  const Job job = partitioned_job();
  const Graph graph = lowered(job);
  const auto layer = std::find_if(graph.blocks.begin(), graph.blocks.end(),
                                  [](const Block& block) { return block.checkpointable; });
  std::vector<std::string_view> called;
  std::size_t with_weights = 0;
  for (const ModuleCall& call : module_calls(*layer, {})) {
    called.push_back(layer->ops[call.begin].name);
    with_weights += call.parameters.size();
  }
  const std::vector<std::string_view> expected{
      "attention_norm",  // the layer
      "attention_norm",    "q_proj",     "q_proj",  "k_proj",   "v_proj", "o_proj",
      "feed_forward_norm",
      "gate_proj",  // the feed-forward
      "gate_proj",         "activation", "up_proj", "down_proj"};
  CHECK(called == expected);
  CHECK(with_weights == 9);
}

TEST_CASE("peft's layer holds its base layer, a dropout and two matrices", "[memory]") {
  Job job = partitioned_job();
  job.model.adapter = Adapter{.rank = 8, .targets = {"o_proj"}};
  const Graph graph = lowered(job);
  const auto layer = std::ranges::find_if(graph.blocks, &Block::checkpointable);
  const auto position = [&](const ModuleCall& call) {
    return std::pair(layer->ops[call.begin].name, call.end - call.begin);
  };
  const std::vector<ModuleCall> calls = module_calls(*layer, {});
  const auto around =
      std::ranges::find_if(calls, [](const ModuleCall& call) { return !call.reads.empty(); });
  REQUIRE(around != calls.end());
  // It reads the first matrix behind its base layer.
  CHECK(layer->ops[around->read_before].name.starts_with("o_proj.lora"));
  CHECK(around->parameters.empty());
  // The Identity lies between two ops, and stands before the base layer: its backward comes first.
  CHECK((around + 1)->begin == (around + 1)->end);
  CHECK(position(*(around + 2)) == std::pair(std::string_view("o_proj"), 1U));
  CHECK(position(*(around + 3)) == std::pair(std::string_view("o_proj.lora_A"), 1U));
  CHECK(position(*(around + 4)) == std::pair(std::string_view("o_proj.lora_B"), 1U));
  CHECK((around + 3)->parameters == around->reads);
}

TEST_CASE("modules of frozen weights have no backward where no gradient comes to them",
          "[memory]") {
  Job job = partitioned_job();
  job.model.adapter = Adapter{.rank = 8, .targets = {"o_proj"}};
  const Graph graph = lowered(job);
  const auto layer = std::ranges::find_if(graph.blocks, &Block::checkpointable);
  std::size_t with_backward = 0;
  for (const ModuleCall& call : module_calls(*layer, {})) {
    const std::string_view name = layer->ops[call.begin].name;
    if (name == "q_proj" && call.end == call.begin + 1) CHECK_FALSE(call.has_backward);
    if (name == "up_proj") CHECK(call.ends_backward);
    with_backward += call.has_backward ? 1 : 0;
  }
  CHECK(with_backward > 0);
}

TEST_CASE("in the first step weights come module by module, and go behind each", "[memory]") {
  Weights weights({.prefetch_bucket = 1000, .max_live = 1000, .max_reuse_distance = 1000});
  weights.run();
  CHECK(weights.most_alive() == 2 * 8);
  CHECK(weights.events() == 16);
}

TEST_CASE("weights that are needed within the reuse distance stay", "[memory]") {
  Weights far({.max_live = 1000, .max_reuse_distance = 1000});
  far.run();
  const std::size_t begin = far.events();
  far.run();
  CHECK(far.most_alive(begin) == 4 * 2 * 8);  // every one until its backward
  Weights near({.max_live = 1000, .max_reuse_distance = 0});
  near.run();
  near.run();
  CHECK(near.most_alive() == 2 * 8);
  // The next module's weight is what lies 8 elements ahead: the last one's own.
  Weights next({.max_live = 1000, .max_reuse_distance = 8});
  next.run();
  next.run();
  CHECK(next.most_alive() == 2 * 8);
  CHECK(next.events() == 16 + 14);
}

TEST_CASE("weights that travel together are copied, and what they came in goes with the last",
          "[memory]") {
  Weights weights({.prefetch_bucket = 16, .max_live = 1000, .max_reuse_distance = 0});
  weights.run();
  const std::size_t begin = weights.events();
  (*weights).begin_run();
  weights.call(0);
  // Its own, two in one tensor behind it.
  CHECK(weights.made(begin) == std::vector<std::int64_t>{16, 32});
  weights.call(1);
  // Both get their own memory; ahead lie the fourth, and the first again in its backward.
  CHECK(weights.made(begin) == std::vector<std::int64_t>{16, 32, 16, 16, 32});
}

TEST_CASE("a weight that another module reads is the reader's too from the second run on",
          "[memory]") {
  Weights weights({.prefetch_bucket = 0, .max_live = 1000, .max_reuse_distance = 0}, 2);
  const auto run = [&weights] {
    (*weights).begin_run();
    (*weights).before_forward(0);
    weights.call(1);
    (*weights).read(0, {1});
    (*weights).after_forward(0);
  };
  const auto events_of = [&weights, &run] {
    const std::size_t begin = weights.events();
    run();
    return weights.events() - begin;
  };
  // Both come and go by themselves, and the second comes again for the reader.
  CHECK(events_of() == 6);
  // It has come together with the reader's own, is copied, and nobody else gathers it.
  CHECK(events_of() == 6);
  CHECK(weights.made(6) == std::vector<std::int64_t>{32, 16, 16});
}

TEST_CASE("a checkpoint's second forward holds weights that were let go until its node has run",
          "[memory]") {
  const auto most_at_once = [](bool recomputes) {
    Job job = partitioned_job();
    job.training->steps = 1;
    job.parallelism.deepspeed.persistence_threshold = 0;
    if (recomputes) job.training->recompute = FullRecompute{};
    std::int64_t alive = 0;
    std::int64_t most = 0;
    const Timeline timeline = timeline_of(job);
    for (const Event& event : timeline.events) {
      const Storage& storage = timeline.storages[event.storage];
      // Of a layer: its projections' weights have 2 · 256 · 704 B at most.
      if (!is_gathered(storage) || storage.bytes > 2 * 256 * 704) continue;
      alive += event.kind == EventKind::allocate ? storage.bytes : -storage.bytes;
      most = std::max(most, alive);
    }
    return most;
  };
  // In the first run a module's weights go behind it.
  CHECK(most_at_once(false) == 2 * 256 * 704);
  // All of a layer's: the attention's, with keys and values of half the width, the feed-forward's
  // and the norms'.
  CHECK(most_at_once(true) == 2 * 256 * (3 * 256 + 3 * 704 + 2));
}

TEST_CASE("frozen weights of a second forward are its module's whose backward had begun",
          "[memory]") {
  // The second module runs again in the backward of the first, and needs its weight behind that.
  const auto made = [](bool trained) {
    Timeline timeline;
    Recorder recorder(timeline);
    std::vector<WeightCoordinator::Weight> weights(2);
    for (WeightCoordinator::Weight& weight : weights) {
      weight.elements = 8;
      weight.trained = trained;
    }
    WeightCoordinator coordinator({.max_live = 1000, .max_reuse_distance = 1000, .ranks = 4},
                                  weights, {{0}, {1}}, recorder);
    std::size_t behind = 0;
    for (int i = 0; i < 2; ++i) {
      coordinator.begin_run();
      coordinator.before_backward(0);
      coordinator.before_forward(1);
      coordinator.after_forward(1);
      coordinator.after_backward(0);
      behind = timeline.storages.size();
      coordinator.before_backward(1);
      coordinator.after_backward(1);
    }
    return timeline.storages.size() - behind;
  };
  CHECK(made(true) == 0);   // it is needed soon, and stays
  CHECK(made(false) == 1);  // it has gone, and comes again
}

TEST_CASE("nothing is gathered ahead beyond max_live_parameters", "[memory]") {
  Weights weights({.prefetch_bucket = 1000, .max_live = 8, .max_reuse_distance = 0});
  weights.run();
  weights.run();
  CHECK(weights.most_alive() == 2 * 8);
}

TEST_CASE("a step leaves no weight gathered but those that stay", "[memory]") {
  Job job = partitioned_job();
  job.parallelism.deepspeed.persistence_threshold = 256;  // the nine norms
  for (const bool recomputes : {false, true}) {
    if (recomputes) job.training->recompute = FullRecompute{};
    for (const std::int64_t live : {0, 100'000, 1'000'000'000}) {
      job.parallelism.deepspeed.max_live_parameters = live;
      const Timeline timeline = timeline_of(job);
      std::int64_t alive = 0;
      for (const Event& event : timeline.events) {
        const Storage& storage = timeline.storages[event.storage];
        if (!is_gathered(storage)) continue;
        alive += event.kind == EventKind::allocate ? storage.bytes : -storage.bytes;
      }
      CHECK(alive == 2 * 9 * 256);
    }
  }
}

TEST_CASE("gradients are put together a bucket at a time, and one that divides where it lies",
          "[memory]") {
  Timeline timeline;
  Recorder recorder(timeline);
  DeepSpeedZero rules{.stage = ZeroStage::optimizer_gradients_weights, .settings = {}};
  rules.settings.reduce_bucket_size = 10;
  PartitionedGradients gradients({.rules = rules, .ranks = 4}, {6, 6, 8}, recorder);
  gradients.construct();
  const auto arrive = [&](std::size_t parameter, std::int64_t elements) {
    gradients.take(parameter, recorder.make(2 * elements, {}));
  };
  arrive(2, 8);  // fills the bucket, and divides by 4
  arrive(1, 6);  // does not
  arrive(0, 6);
  gradients.end_backward();
  std::vector<std::int64_t> made;
  for (const Storage& storage : timeline.storages) made.push_back(storage.bytes);
  // Bucket, pieces of 2 elements each, then gradients with what is put together of 4 pieces.
  CHECK(made == std::vector<std::int64_t>{20, 12, 16, 12, 12, 16, 16});
}

}  // namespace memest
