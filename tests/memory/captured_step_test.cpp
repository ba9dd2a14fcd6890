// A step whose forwards and backwards are captured as a CUDA graph: what its pool has of its own,
// beside the same step run eagerly.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/step_replay.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/memory/unfollowed.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

using namespace testing;

constexpr int kMicroSteps = 3;

Job job_of_layers(const std::string& layers, const std::string& cuda_graph) {
  const std::string text =
      "model: {layers: 4, hidden_size: 1024, heads: 16, ffn_size: 4096, vocab_size: 4096, "
      "activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 512, precision: megatron, global_batch: " +
      std::to_string(kMicroSteps) + ", implementation: {name: megatron, layers: " + layers +
      ", cuda_graph: " + cuda_graph + "}}\nhardware: {gpu: h100-sxm-80gb}\n";
  const Checked<Job> job =
      read_job(std::make_shared<const SourceText>(SourceText{"job.yaml", text}));
  REQUIRE(job.ok());
  return job.value();
}

Timeline timeline_of(const Job& job) {
  return std::get<Timeline>(write_timeline(lowered(job), job));
}

/// Bytes asked for in the graph's pool.
std::int64_t bytes_in_pool(const Timeline& timeline) {
  std::int64_t bytes = 0;
  for (const Storage& storage : timeline.storages) {
    if (storage.stream == PartStream(Stream::graph)) bytes += storage.bytes;
  }
  return bytes;
}

std::int64_t awaited_bytes(const Timeline& timeline) {
  std::int64_t bytes = 0;
  for (const Storage& storage : timeline.storages) bytes += storage.awaited ? storage.bytes : 0;
  return bytes;
}

std::int64_t most_alive(const Timeline& timeline) {
  std::int64_t alive = 0;
  std::int64_t most = 0;
  for (const Event& event : timeline.events) {
    const std::int64_t bytes = timeline.storages[event.storage].bytes;
    alive += event.kind == EventKind::allocate ? bytes : -bytes;
    most = std::max(most, alive);
  }
  return most;
}

std::int64_t reserved(const Timeline& timeline) {
  const Bytes device(80'000'000'000);
  const ReplayDevice whole{.total = device, .available = device, .limit = {}};
  return replay_steps(timeline, AllocatorSettings{}, whole).statistics.reserved.peak.value();
}

}  // namespace

TEST_CASE("a captured step is one more step, in a pool that no other step allocates from",
          "[memory]") {
  const Timeline eager = timeline_of(job_of_layers("local", "off"));
  const Timeline captured = timeline_of(job_of_layers("local", "full_iteration"));
  CHECK(bytes_in_pool(eager) == 0);
  CHECK(captured.spans.back().step == eager.spans.back().step + 1);
  REQUIRE(captured.emptied_before.has_value());
  for (std::uint32_t i = 0; i < *captured.emptied_before; ++i) {
    const Storage& storage = captured.storages[captured.events[i].storage];
    CHECK(storage.stream != PartStream(Stream::graph));
  }
}

TEST_CASE("gradients of every captured micro-step stay in the pool until the capture ends",
          "[memory]") {
  const Job job = job_of_layers("local", "full_iteration");
  // Of local layers each weight's, in bf16; Transformer Engine's products answer none.
  const std::int64_t parameters = ledger_of(job).bindings.at(Symbol::parameters);
  CHECK(awaited_bytes(timeline_of(job)) == kMicroSteps * 2 * parameters);
  CHECK(awaited_bytes(timeline_of(job_of_layers("te", "full_iteration"))) <
        awaited_bytes(timeline_of(job)) / 2);
  CHECK(awaited_bytes(timeline_of(job_of_layers("local", "off"))) == 0);
}

TEST_CASE("static tensors of captured layers are those of all chunks in flight", "[memory]") {
  const auto static_bytes = [](const std::string& parallelism, const std::string& model) {
    const std::string text =
        "model: {layers: 8, hidden_size: 1024, heads: 16, ffn_size: 4096, vocab_size: 4096, "
        "activation: swiglu, norm: rmsnorm, position: rope" +
        model +
        "}\ntraining: {seq_len: 512, precision: megatron, gradient_accumulation: 16, "
        "implementation: {name: megatron, cuda_graph: [attn, mlp]}}\nparallelism: {" +
        parallelism + "}\nhardware: {gpu: h100-sxm-80gb, count: 4}\n";
    const Checked<Job> job =
        read_job(std::make_shared<const SourceText>(SourceText{"job.yaml", text}));
    REQUIRE(job.ok());
    return most_graph_bytes(job.value()).value();
  };
  // Input, output and both gradients, in bf16.
  constexpr std::int64_t kOfLayer = 4 * 2 * 512 * 1024;
  // The first rank has 4 micro-steps in flight of 2 layers; interleaved 2·3 + 4 + 1 of one.
  CHECK(static_bytes("pipeline: 4", "") == 4 * 2 * kOfLayer);
  CHECK(static_bytes("pipeline: 4, virtual_stages: 2, schedule: interleaved", "") == 11 * kOfLayer);
  // A layer that predicts is one more.
  CHECK(static_bytes("data: 4", ", mtp_num_layers: 1") == 9 * kOfLayer);
}

TEST_CASE("what a captured step reserves is not below what an eager one does", "[memory]") {
  for (const char* layers : {"local", "te"}) {
    INFO(layers);
    const std::int64_t eager = reserved(timeline_of(job_of_layers(layers, "off")));
    const std::int64_t captured = reserved(timeline_of(job_of_layers(layers, "full_iteration")));
    CHECK(captured > eager);
    CHECK(captured < 3 * eager);
  }
}

TEST_CASE("the closed form of a captured step is not below its events", "[memory]") {
  for (const char* layers : {"local", "te"}) {
    const Job job = job_of_layers(layers, "full_iteration");
    const Ledger ledger = ledger_of(job);
    const double closed = estimate_memory(ledger, ledger.bindings).allocated().as_double();
    const auto peak = static_cast<double>(most_alive(timeline_of(job)));
    INFO(layers << ": " << peak << " in the events, " << closed << " in the closed form");
    CHECK(closed > 0.98 * peak);
    CHECK(closed < 1.1 * peak);
  }
}

}  // namespace memest
