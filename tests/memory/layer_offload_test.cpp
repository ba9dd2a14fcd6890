// Saved tensors of Megatron's first layers on the host: what comes back, when, and what the host
// keeps of it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/graph/saved_sizes.hpp"
#include "memest/memory/host_memory.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

using namespace testing;

struct DrawnJob {
  std::int64_t layers = 0;
  std::int64_t offloaded = 0;
  Job job;
};

DrawnJob drawn_job(test::Draws& draws) {
  DrawnJob drawn;
  drawn.layers = draws.one_of(2, 3, 5, 8);
  drawn.offloaded =
      1 + static_cast<std::int64_t>(draws.below(static_cast<std::size_t>(drawn.layers - 1)));
  const bool te = draws.below(3) > 0;
  const std::int64_t tensor = draws.one_of(1, 2);
  const std::string narrow =
      draws.one_of(std::string(), std::string(", float8: {recipe: tensorwise}"),
                   std::string(", float8: {recipe: mxfp8}"));
  std::string text =
      "model: {layers: " + std::to_string(drawn.layers) +
      ", hidden_size: 256, heads: 8, kv_heads: 4, ffn_size: 512, vocab_size: 1024, "
      "activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 128, micro_batch: " +
      std::string(draws.one_of("1", "2")) +
      ", gradient_accumulation: 2, steps: 1, precision: megatron" + (te ? narrow : "") +
      ", offload_activations: {method: cpu_offloading, layers: " + std::to_string(drawn.offloaded) +
      "}, implementation: {name: megatron, layers: " + (te ? "te" : "local") +
      "}}\nparallelism: {data: 2, tensor: " + std::to_string(tensor) +
      ", sequence: " + (tensor > 1 ? "true" : "false") +
      draws.one_of("", ", zero: 3", ", distributed_optimizer: true") +
      "}\nhardware: {gpu: b200-sxm-180gb, count: " + std::to_string(2 * tensor) + "}\n";
  const Checked<Job> read =
      read_job(std::make_shared<const SourceText>(SourceText{"drawn.yaml", text}));
  REQUIRE(read.ok());
  drawn.job = read.value();
  return drawn;
}

Graph graph_of(const Job& job) {
  LoweringPolicy policy = policy_of(*job.training, *job.hardware.gpu.compute_capability());
  policy.tensor = job.parallelism.tensor;
  policy.sequence_parallel = job.parallelism.sequence;
  return std::get<Graph>(lower(job.model, policy));
}

/// The events of one micro-step at which something of a layer is made, by layer from 0 on.
struct Made {
  std::vector<std::size_t> back;            ///< the first tensor that comes back
  std::vector<std::size_t> first_gradient;  ///< of the layer's backward
};
Made made_in(const Timeline& timeline, std::int64_t layers) {
  const std::size_t never = timeline.events.size();
  Made made{std::vector(static_cast<std::size_t>(layers), never),
            std::vector(static_cast<std::size_t>(layers), never)};
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    if (timeline.events[i].kind != EventKind::allocate) continue;
    const Label& label = timeline.storages[timeline.events[i].storage].label;
    const bool back = label.origin == Origin::unpacked;
    if (!back && label.origin != Origin::backward) continue;
    const std::int64_t layer = timeline.places[label.place].layer;
    if (layer == 0) continue;
    auto& first = (back ? made.back : made.first_gradient)[static_cast<std::size_t>(layer - 1)];
    first = std::min(first, i);
  }
  return made;
}

}  // namespace

TEST_CASE("what layers list comes back once a micro-step, over drawn jobs of Megatron",
          "[memory]") {
  test::Draws draws(21);
  for (int i = 0; i < 40; ++i) {
    const DrawnJob drawn = drawn_job(draws);
    const Graph graph = graph_of(drawn.job);
    const auto written = write_timeline(graph, drawn.job);
    REQUIRE(std::holds_alternative<Timeline>(written));
    const auto& timeline = std::get<Timeline>(written);
    SavedSizes back;
    for (const Storage& storage : timeline.storages) {
      if (storage.label.origin == Origin::unpacked) ++back[storage.bytes];
    }
    INFO("draw " << i << ", " << drawn.offloaded << " of " << drawn.layers);
    SavedSizes expected = offloaded_sizes(graph, drawn.offloaded);
    Bytes bytes;
    Bytes pinned;
    for (auto& [size, count] : expected) {
      std::int64_t power = 1;
      while (power < size) power *= 2;
      bytes += Bytes(size) * count;
      pinned += Bytes(power) * count;
      count *= 2;  // micro-steps
    }
    CHECK(back == expected);
    const HostMemory host = *host_memory_of(graph, drawn.job);
    REQUIRE(host.terms.size() == 1);
    CHECK(host.terms.front().bytes == bytes);
    CHECK(host.pinned() == pinned);
  }
}

TEST_CASE("layer i comes back as the backward of layer L - 1 - N + i begins", "[memory]") {
  test::Draws draws(22);
  for (int i = 0; i < 40; ++i) {
    DrawnJob drawn = drawn_job(draws);
    drawn.job.training->gradient_accumulation = 1;
    const auto written = write_timeline(graph_of(drawn.job), drawn.job);
    const Made made = made_in(std::get<Timeline>(written), drawn.layers);
    INFO("draw " << i << ", " << drawn.offloaded << " of " << drawn.layers);
    for (std::int64_t layer = 0; layer < drawn.layers; ++layer) {
      const auto at = static_cast<std::size_t>(layer);
      const std::size_t back = made.back[at];
      if (layer >= drawn.offloaded) {
        CHECK(back == std::get<Timeline>(written).events.size());
        continue;
      }
      const auto beside = static_cast<std::size_t>(drawn.layers - 1 - drawn.offloaded) + at;
      CHECK(back < made.first_gradient[beside]);
      if (beside + 1 < made.first_gradient.size()) CHECK(back > made.first_gradient[beside + 1]);
    }
  }
}

TEST_CASE("the more layers are offloaded, the less stands behind the forward", "[memory]") {
  test::Draws draws(23);
  for (int i = 0; i < 12; ++i) {
    DrawnJob drawn = drawn_job(draws);
    std::optional<Bytes> before;
    for (std::int64_t layers = 0; layers < drawn.layers; ++layers) {
      drawn.job.training->offloaded_layers = layers;
      const auto written = write_timeline(graph_of(drawn.job), drawn.job);
      std::int64_t now = 0;
      std::int64_t most = 0;
      const auto& timeline = std::get<Timeline>(written);
      for (const Event& event : timeline.events) {
        const Storage& storage = timeline.storages[event.storage];
        if (storage.label.holding != Holding::activations) continue;
        now += event.kind == EventKind::allocate ? storage.bytes : -storage.bytes;
        most = std::max(most, now);
      }
      INFO("draw " << i << ", " << layers << " of " << drawn.layers);
      // Nodes let saved tensors go one by one where nothing is offloaded, and the layer's list all
      // of them together.
      if (before && layers > 1) CHECK(Bytes(most) < *before);
      before = Bytes(most);
    }
  }
}

}  // namespace memest
