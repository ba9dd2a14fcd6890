// What autograd saves on the host: the timeline's copies back, and the host's memory that they ask
// for, tensor by tensor.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/graph/saved_sizes.hpp"
#include "memest/memory/host_memory.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"

namespace memest {
namespace {

using namespace testing;

Job drawn_job(test::Draws& draws) {
  Job job = job_of(draws.one_of(std::string("bf16"), std::string("amp-bf16"), std::string("fp32")),
                   "sgd");
  const std::int64_t kv_heads = draws.one_of(1, 2, 4);
  const std::int64_t heads = kv_heads * draws.one_of(1, 2);
  job.model = llama(draws.one_of(1, 2, 5), heads * 64, heads, kv_heads, heads * 128);
  std::get<DecoderSpec>(job.model.architecture).vocab_size = draws.one_of(512, 1000);
  job.training->micro_batch = draws.one_of(1, 2, 3);
  job.training->seq_len = draws.one_of(64, 128, 511);
  job.training->steps = 1;
  job.training->gradient_accumulation = 1;
  if (draws.below(2) == 1) job.training->recompute = FullRecompute{};
  // Page-locked ones are refused beside attention that is written out, as fp32's grouped heads ask.
  const bool pinned = kv_heads == heads && draws.below(2) == 1;
  job.training->offload_activations = SaveOnCpu{pinned};
  return job;
}

/// How many of each size come back in a step.
SavedSizes unpacked_in(const Timeline& timeline) {
  SavedSizes sizes;
  for (const Storage& storage : timeline.storages) {
    if (storage.label.origin == Origin::unpacked) ++sizes[storage.bytes];
  }
  return sizes;
}

}  // namespace

TEST_CASE("all that is saved on the host comes back once, over drawn decoders", "[memory]") {
  test::Draws draws(20);
  for (int i = 0; i < 40; ++i) {
    const Job job = drawn_job(draws);
    const Graph graph = lowered(job);
    const auto written = write_timeline(graph, job);
    REQUIRE(std::holds_alternative<Timeline>(written));
    const CheckpointPlan plan = checkpoint_plan_of(*job.training, graph.layers());
    SavedSizes expected = saved_sizes(graph, plan);
    const SavedSizes unpacked = unpacked_in(std::get<Timeline>(written));
    INFO("draw " << i);
    CHECK(unpacked == expected);
    Bytes bytes;
    Bytes pinned;
    for (const auto& [size, count] : expected) {
      std::int64_t power = 1;
      while (power < size) power *= 2;
      bytes += Bytes(size) * count;
      pinned += Bytes(power) * count;
    }
    const HostMemory host = *host_memory_of(graph, job);
    REQUIRE(host.terms.size() == 1);
    CHECK(host.terms.front().bytes == bytes);
    CHECK(host.pinned() == (job.training->offload_activations->pin_memory ? pinned : Bytes()));
  }
}

/// torch.cuda.host_memory_stats()["allocated_bytes.peak"] of three steps; an empty tensor takes a
/// byte.
TEST_CASE("page-locked memory of saved tensors is that of a recorded run", "[memory]") {
  Job job = job_of("bf16", "adamw");
  job.model = llama(2, 256, 8, 4, 688);
  std::get<DecoderSpec>(job.model.architecture).vocab_size = 1000;
  job.training->micro_batch = 2;
  job.training->seq_len = 128;
  job.training->offload_activations = SaveOnCpu{true};
  CHECK(host_memory_of(lowered(job), job)->pinned() == Bytes(16'613'925 - 1));
}

/// Between forward and backward the device has what the loop and the last block's function hold.
TEST_CASE("without recompute the device keeps no activation between the passes", "[memory]") {
  test::Draws draws(21);
  for (int i = 0; i < 10; ++i) {
    Job job = drawn_job(draws);
    job.training->recompute = NoRecompute{};
    const Graph graph = lowered(job);
    const auto written = write_timeline(graph, job);
    REQUIRE(std::holds_alternative<Timeline>(written));
    const auto& timeline = std::get<Timeline>(written);
    std::map<StorageId, bool> alive;
    for (const Span& span : timeline.spans) {
      if (span.phase == Phase::backward) break;
      for (std::uint32_t e = span.begin; e < span.end; ++e) {
        const Event& event = timeline.events[e];
        alive[event.storage] = event.kind == EventKind::allocate;
      }
    }
    for (const auto& [storage, is_alive] : alive) {
      const Label& label = timeline.storages[storage].label;
      if (!is_alive || label.origin != Origin::forward) continue;
      INFO("draw " << i << ": " << storage_name(timeline, graph, storage));
      CHECK(timeline.storages[storage].bytes <= 4);  // the loss
    }
  }
}

}  // namespace memest
