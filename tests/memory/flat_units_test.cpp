// FSDP1: flat tensors, what is gathered when, and what the optimizer steps.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {
namespace {

using namespace testing;

constexpr std::int64_t kLayers = 4;

Job flat_job(const std::string& recipe = "fsdp2-bf16") {
  Job job = job_of(recipe, "adamw");
  job.model = llama(kLayers, 256, 4, 2, 704);
  job.training->micro_batch = 1;
  job.training->seq_len = 128;
  job.training->steps = 2;
  job.parallelism.data = 4;
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.fsdp = FullySharded{.version = 1};
  return job;
}

Timeline timeline_of(const Job& job) {
  return std::get<Timeline>(write_timeline(lowered(job), job));
}

bool is_of_unit(const Storage& storage, UnitTensor tensor) {
  return storage.label.origin == Origin::unit &&
         storage.label.tensor == static_cast<std::uint16_t>(tensor);
}

std::int64_t parameters_of(const Job& job) {
  return ledger_of(job).bindings.at(Symbol::parameters);
}

}  // namespace

TEST_CASE("every rank has an equal shard of each flat tensor, and states of its elements",
          "[memory]") {
  const Job job = flat_job();
  const Timeline timeline = timeline_of(job);
  std::int64_t shards = 0;
  std::int64_t states = 0;
  for (const Storage& storage : timeline.storages) {
    if (is_of_unit(storage, UnitTensor::shard)) shards += storage.bytes;
    const bool state = storage.label.holding == Holding::optimizer_states;
    if (state && storage.bytes > 4) states += storage.bytes;  // the rest counts steps
  }
  CHECK(shards == 4 * parameters_of(job) / 4);
  CHECK(states == 2 * shards);
}

TEST_CASE("a unit is gathered when it runs and at most two with the root in the backward",
          "[memory]") {
  const Timeline timeline = timeline_of(flat_job());
  std::size_t layers = 0;
  std::size_t most = 0;
  for (const Event& event : timeline.events) {
    const Storage& storage = timeline.storages[event.storage];
    const bool gathered = is_of_unit(storage, UnitTensor::flat_weights) &&
                          storage.stream == Stream::all_gather && storage.label.op == 0;
    if (!gathered) continue;
    layers += event.kind == EventKind::allocate ? 1 : 0;
    layers -= event.kind == EventKind::free ? 1 : 0;
    most = std::max(most, layers);
  }
  CHECK(most == 2);
  CHECK(layers == 0);
}

TEST_CASE("without resharding every unit is gathered once a step", "[memory]") {
  Job job = flat_job();
  const auto gathers = [](const Timeline& timeline) {
    return std::count_if(timeline.storages.begin(), timeline.storages.end(),
                         [](const Storage& storage) {
                           return is_of_unit(storage, UnitTensor::flat_weights) &&
                                  storage.stream == Stream::all_gather;
                         });
  };
  CHECK(gathers(timeline_of(job)) == 2 * (2 * kLayers + 1));
  job.parallelism.fsdp->reshard = Reshard::never;
  CHECK(gathers(timeline_of(job)) == 2 * (kLayers + 1));
}

TEST_CASE("zero_grad drops views, and the shards go with the next forward", "[memory]") {
  const Timeline timeline = timeline_of(flat_job());
  for (const Span& span : timeline.spans) {
    if (span.phase != Phase::zero_grad) continue;
    for (std::uint32_t i = span.begin; i < span.end; ++i) {
      const Storage& storage = timeline.storages[timeline.events[i].storage];
      CHECK_FALSE(is_of_unit(storage, UnitTensor::gradients));
    }
  }
}

TEST_CASE("in one type nothing is cast, and a reduction has no copy of its own", "[memory]") {
  const Timeline timeline = timeline_of(flat_job("bf16"));
  for (const Storage& storage : timeline.storages) {
    CHECK_FALSE(is_of_unit(storage, UnitTensor::cast_shares));
    CHECK_FALSE(is_of_unit(storage, UnitTensor::reduce_scatter_input));
  }
}

}  // namespace memest
