// DeepSpeed's ZeRO: its flat partitions, and what its buckets, gathered weights and steps take.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/flattening.hpp"
#include "memest/memory/host_memory.hpp"
#include "memest/memory/stage_form.hpp"
#include "memest/memory/timeline.hpp"
#include "memory/states/flat_partitions.hpp"

namespace memest {
namespace {

using namespace testing;

Job deepspeed_job(ZeroStage stage) {
  Job job = job_of("mixed", "adamw");
  job.model = llama(4, 256, 4, 2, 704);
  job.training->micro_batch = 1;
  job.training->seq_len = 128;
  job.training->steps = 1;
  job.parallelism.data = 4;
  job.parallelism.zero = stage;
  job.parallelism.deepspeed.reduce_bucket_size = 1000;
  return job;
}

/// Bytes of the tensors that the timeline makes for `tensor` of the loop, in order.
std::vector<std::int64_t> made(const Timeline& timeline, LoopTensor tensor) {
  std::vector<std::int64_t> bytes;
  for (const Storage& storage : timeline.storages) {
    if (storage.label.origin != Origin::loop) continue;
    if (storage.label.tensor != static_cast<std::uint16_t>(tensor)) continue;
    bytes.push_back(storage.bytes);
  }
  return bytes;
}

Timeline timeline_of(const Job& job) {
  return std::get<Timeline>(write_timeline(lowered(job), job));
}

std::int64_t parameters_of(const Job& job) {
  return ledger_of(job).bindings.at(Symbol::parameters);
}

}  // namespace

TEST_CASE("partitions are equal, even, and hold everything", "[memory]") {
  for (const std::int64_t ranks : {1, 2, 3, 8, 64}) {
    const FlatPartitions flat({1000, 7, 50, 333}, ranks);
    CHECK(flat.elements() == flat.partition() * ranks);
    CHECK(flat.partition() % 2 == 0);
    CHECK(flat.elements() >= 1390);
    CHECK(flat.elements() < 1390 + 2 * ranks);
    std::int64_t pieces = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::vector<std::int64_t> own = flat.pieces(rank);
      pieces += std::accumulate(own.begin(), own.end(), std::int64_t{0});
      CHECK(flat.reaching(rank) >= std::accumulate(own.begin(), own.end(), std::int64_t{0}));
    }
    CHECK(pieces == 1390);
  }
}

TEST_CASE("a rank keeps whole every parameter that reaches into its partition", "[memory]") {
  const FlatPartitions flat({100, 20}, 4);  // 30 each: the first reaches into all four
  CHECK(flat.partition() == 30);
  CHECK(flat.reaching(0) == 100);
  CHECK(flat.reaching(3) == 120);
  CHECK(flat.pieces(3) == std::vector<std::int64_t>{10, 20});
}

TEST_CASE("each of the Trainer's two parameter groups has a flat tensor, and steps by itself",
          "[memory]") {
  Job job = deepspeed_job(ZeroStage::optimizer_gradients);
  CHECK(made(timeline_of(job), LoopTensor::parameter_buffer).size() == 1);
  job.training->implementation.loop = LoopKind::trainer;
  const Timeline timeline = timeline_of(job);
  constexpr std::int64_t kOfNorms = 9 * 256;
  const std::int64_t decayed = parameters_of(job) - kOfNorms;
  CHECK(made(timeline, LoopTensor::parameter_buffer) ==
        std::vector<std::int64_t>{2 * decayed, 2 * kOfNorms});
  REQUIRE(timeline.emptied_before);
  // The gradients of zeros of both; then those of a step, group by group.
  CHECK(made(timeline, LoopTensor::gradient_in_master_type) ==
        std::vector<std::int64_t>{decayed, kOfNorms, decayed, kOfNorms});
  job.training->recipe.gradients = DType::fp32;
  CHECK(std::holds_alternative<Unavailable>(write_timeline(lowered(job), job)));
}

TEST_CASE("a bucket has its whole size, whatever the model's, and overlap_comm makes two",
          "[memory]") {
  Job job = deepspeed_job(ZeroStage::optimizer_gradients);
  job.parallelism.deepspeed.reduce_bucket_size = 500'000'000;
  CHECK(named_bytes(ledger_of(job), "gradient bucket") == 1'000'000'000);
  job.parallelism.deepspeed.overlap_comm = true;
  CHECK(named_bytes(ledger_of(job), "gradient bucket") == 2'000'000'000);
  const std::vector<std::int64_t> buckets = made(timeline_of(job), LoopTensor::gradient_bucket);
  CHECK(std::count(buckets.begin(), buckets.end(), 1'000'000'000) == 2);
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  CHECK(named_bytes(ledger_of(job), "gradient bucket") == 1'000'000'000);
  job.parallelism.deepspeed.contiguous_gradients = false;
  CHECK(named_bytes(ledger_of(job), "gradient bucket") == 0);
}

TEST_CASE("the weights are one flat tensor, and a rank's states a D-th of it", "[memory]") {
  for (const ZeroStage stage : {ZeroStage::optimizer, ZeroStage::optimizer_gradients}) {
    const Job job = deepspeed_job(stage);
    const Timeline timeline = timeline_of(job);
    const std::int64_t elements = parameters_of(job);
    CHECK(made(timeline, LoopTensor::parameter_buffer) == std::vector<std::int64_t>{2 * elements});
    std::int64_t states = 0;
    for (const Storage& storage : timeline.storages) {
      if (storage.label.holding == Holding::optimizer_states && storage.bytes > 8) {
        states += storage.bytes;
      }
    }
    CHECK(states == 12 * elements / 4);
  }
}

TEST_CASE("the step puts the partition's gradients together and widens them", "[memory]") {
  const Job job = deepspeed_job(ZeroStage::optimizer_gradients);
  const std::int64_t partition = parameters_of(job) / 4;
  const std::vector<std::int64_t> widened =
      made(timeline_of(job), LoopTensor::gradient_in_master_type);
  CHECK(widened == std::vector<std::int64_t>{4 * partition, 4 * partition});  // zeros, a step's
}

TEST_CASE("ZeRO 3 gathers ahead until max_live_parameters are there", "[memory]") {
  Job job = deepspeed_job(ZeroStage::optimizer_gradients_weights);
  job.parallelism.deepspeed.persistence_threshold = 0;
  const auto gathered = [&job] {
    std::int64_t most = 0;
    const Ledger ledger = ledger_of(job);
    for (const LedgerTerm& term : ledger.terms) {
      if (term.name != "gathered weights of ZeRO 3") continue;
      most = std::max(most, term.formula.bytes(ledger.bindings).value());
    }
    return most;
  };
  const std::int64_t all = parameters_of(job);
  CHECK(gathered() == 2 * all);
  // The head alone is more than may live: it is gathered all the same.
  job.parallelism.deepspeed.max_live_parameters = 1000;
  CHECK(gathered() == 2 * 128256 * 256);
}

TEST_CASE("weights of few elements stay gathered", "[memory]") {
  Job job = deepspeed_job(ZeroStage::optimizer_gradients_weights);
  job.parallelism.deepspeed.persistence_threshold = 256;  // the nine norms
  CHECK(named_bytes(ledger_of(job), "weights that stay gathered") == 2 * 9 * 256);
  job.parallelism.deepspeed.persistence_threshold = 255;
  CHECK(named_bytes(ledger_of(job), "weights that stay gathered") == 0);
}

TEST_CASE("ZeRO 3 steps sub_group_size elements at once", "[memory]") {
  Job job = deepspeed_job(ZeroStage::optimizer_gradients_weights);
  job.parallelism.deepspeed.sub_group_size = 1000;
  const Bytes small = total_at(ledger_of(job), "optimizer step");
  job.parallelism.deepspeed.sub_group_size = 2000;
  // A thousand elements more in fp32, and their square roots.
  CHECK(total_at(ledger_of(job), "optimizer step") - small == Bytes(8 * 1000));
}

TEST_CASE("the timeline of ZeRO 3 with a part on NVMe is refused with a sentence", "[memory]") {
  Job job = deepspeed_job(ZeroStage::optimizer_gradients_weights);
  job.parallelism.offload.optimizer = job.parallelism.offload.optimizer_on_nvme = true;
  const auto refused = write_timeline(lowered(job), job);
  REQUIRE(std::holds_alternative<Unavailable>(refused));
}

namespace {

/// The most bytes held before the first step.
Bytes held_before_steps(const Timeline& timeline) {
  std::int64_t held = 0;
  std::int64_t most = 0;
  for (const Event& event : timeline.events) {
    const Storage& storage = timeline.storages[event.storage];
    if (event.kind == EventKind::allocate && storage.label.step > 0) break;
    held += event.kind == EventKind::allocate ? storage.bytes : -storage.bytes;
    most = std::max(most, held);
  }
  return Bytes(most);
}

Job offloading_job(std::int64_t ranks, std::int64_t layers, std::int64_t hidden_size) {
  Job job = deepspeed_job(ZeroStage::optimizer_gradients);
  job.model = llama(layers, hidden_size, 4, 2, 704);
  job.parallelism.data = ranks;
  job.hardware.count = ranks;
  job.parallelism.offload.optimizer = true;
  return job;
}

}  // namespace

TEST_CASE("weights are made flat on the host where the GPU has no room beside them", "[memory]") {
  for (const std::int64_t ranks : {1, 2, 8}) {
    for (const std::int64_t hidden_size : {256, 1024}) {
      Job job = offloading_job(ranks, 4, hidden_size);
      const Graph graph = lowered(job);
      CHECK_FALSE(flattens_on_host(graph, job));
      // The least capacity with which the GPU flattens: one byte less, and the host does.
      std::int64_t host = 0;
      std::int64_t device = job.hardware.gpu.capacity.value.value();
      while (device - host > 1) {
        const std::int64_t middle = host + (device - host) / 2;
        job.hardware.gpu.capacity.value = Bytes(middle);
        (flattens_on_host(graph, job) ? host : device) = middle;
      }
      const Bytes outside = outside_bytes(job).low;
      const Bytes weights(2 * parameters_of(job));
      job.hardware.gpu.capacity.value = Bytes(device);
      const Timeline on_device = timeline_of(job);
      CHECK_FALSE(on_device.emptied_before);
      // What the GPU has free is what it takes: the weights, and their flat copy.
      CHECK(held_before_steps(on_device) >= Bytes(device) - outside);
      CHECK(held_before_steps(on_device) <= weights * 2 + weights + Bytes(kMiB));
      job.hardware.gpu.capacity.value = Bytes(host);
      const Timeline on_host = timeline_of(job);
      CHECK(on_host.emptied_before);
      // The flat tensor, and the clone of a partition that goes to the host, or behind it the
      // buffer of the largest parameter.
      const Bytes embedding(2 * 128256 * hidden_size);
      const Bytes beside = std::max(Bytes(weights.value() / ranks), embedding);
      CHECK(held_before_steps(on_host) <= weights + beside + Bytes(kMiB));
      // Steps are the same.
      CHECK(made(on_host, LoopTensor::gradient_bucket) ==
            made(on_device, LoopTensor::gradient_bucket));
      // The host holds both for a moment, where that is more than what the steps keep there.
      const HostMemory at_start = *host_memory_of(graph, job);
      job.hardware.gpu.capacity.value = Bytes(device);
      const HostMemory in_steps = *host_memory_of(graph, job);
      CHECK(at_start.taken() >= std::max(weights * 2, in_steps.taken()));
      CHECK(at_start.taken() <= std::max(weights * 2 + Bytes(kMiB), in_steps.taken()));
    }
  }
}

TEST_CASE("the GPU makes weights flat where the optimizer stays on it, or ZeRO shards them",
          "[memory]") {
  Job job = offloading_job(8, 4, 1024);
  job.hardware.gpu.capacity.value = Bytes(kMiB);
  CHECK(flattens_on_host(lowered(job), job));
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  CHECK_FALSE(flattens_on_host(lowered(job), job));
  job.parallelism.zero = ZeroStage::optimizer;
  job.parallelism.offload.optimizer = false;
  CHECK_FALSE(flattens_on_host(lowered(job), job));
}

}  // namespace memest
