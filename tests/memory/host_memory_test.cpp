// What offload takes of the host's memory, and gives back of the device's.
#include "memest/memory/host_memory.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "jobs.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {
namespace {

using namespace testing;

/// 159,925,248 parameters, as the recorded runs have them.
Job small_job(const std::string& recipe, std::int64_t ranks) {
  Job job = job_of(recipe, "adamw");
  job.model = llama(8, 1024, 16, 8, 2816);
  std::get<DecoderSpec>(job.model.architecture).vocab_size = 32000;
  job.parallelism.data = ranks;
  job.parallelism.offload.optimizer = true;
  return job;
}

HostMemory host_of(const Job& job) { return *host_memory_of(lowered(job), job); }

/// torch.cuda.host_memory_stats()["allocated_bytes.current"] of runs of DeepSpeed 0.19.8, which
/// also pins a few scalars.
constexpr std::int64_t kScalars = 16;

bool is_recorded(const HostMemory& memory, std::int64_t recorded) {
  const std::int64_t difference = recorded - memory.pinned().value();
  return difference >= 0 && difference <= kScalars;
}

}  // namespace

TEST_CASE("page-locked memory is that of recorded runs of DeepSpeed", "[memory]") {
  Job job = small_job("mixed", 4);
  job.parallelism.zero = ZeroStage::optimizer;
  CHECK(is_recorded(host_of(job), 738'197'517));
  job.parallelism.zero = ZeroStage::optimizer_gradients;
  CHECK(is_recorded(host_of(job), 738'197'517));
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  CHECK(is_recorded(host_of(job), 402'653'197));
  job.parallelism.offload.parameters = true;
  CHECK(is_recorded(host_of(job), 633'348'621));
  job.parallelism.offload.optimizer = false;
  CHECK(is_recorded(host_of(job), 230'695'429));
}

TEST_CASE("behind NVMe the host keeps buffers of one sub-group, and no state", "[memory]") {
  Job job = small_job("mixed", 4);
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  const HostMemory in_memory = host_of(job);
  CHECK(in_memory.on_nvme() == Bytes());
  job.parallelism.offload.optimizer_on_nvme = true;
  const HostMemory behind = host_of(job);
  // Weights, gradients and both moments in fp32, of a quarter of the parameters each.
  constexpr std::int64_t kShare = 159'925'248 / 4;
  CHECK(behind.on_nvme() == Bytes(16 * kShare));
  // One sub-group holds all: four buffers of it, and the reduced gradients as before.
  const Bytes gradients = Bytes(134'217'728);
  CHECK(behind.taken() == gradients + Bytes(4 * 4 * kShare));
  job.parallelism.deepspeed.sub_group_size = 10'000'000;
  CHECK(host_of(job).taken() < behind.taken());
  CHECK(host_of(job).on_nvme() == behind.on_nvme());
}

TEST_CASE("of weights on NVMe the first thousand million elements stay in memory", "[memory]") {
  Job job = small_job("mixed", 1);
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.offload = {.parameters = true, .parameters_on_nvme = true};
  CHECK(host_of(job).on_nvme() == Bytes());
  std::get<DecoderSpec>(job.model.architecture).order.front().repeat = 8 * 16;
  const std::int64_t parameters = count_parameters(job.model).trainable;
  CHECK(host_of(job).on_nvme() == Bytes(2 * (parameters - 1'000'000'000)));
}

TEST_CASE("earlier micro-steps' gradients lie on the host in ZeRO 2, as recorded", "[memory]") {
  Job job = small_job("mixed", 2);
  job.training->gradient_accumulation = 4;
  job.parallelism.zero = ZeroStage::optimizer;
  CHECK(is_recorded(host_of(job), 1'409'286'157));
  job.parallelism.zero = ZeroStage::optimizer_gradients;
  CHECK(is_recorded(host_of(job), 1'602'242'573));
}

TEST_CASE("without pin_memory ZeRO 3 pins its weights alone, as recorded", "[memory]") {
  Job job = small_job("mixed", 4);
  job.parallelism.offload.pinned = false;
  job.parallelism.zero = ZeroStage::optimizer_gradients;
  CHECK(host_of(job).pinned() == Bytes());
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.offload.parameters = true;
  CHECK(is_recorded(host_of(job), 134'217'741));
}

TEST_CASE("FSDP2 pins the shards and their gradients, as recorded", "[memory]") {
  // The pointer tables of its copies are pinned as well: less than 1 MB here.
  constexpr std::int64_t kTables = 1'000'000;
  for (const auto& [ranks, recorded] :
       {std::pair<std::int64_t, std::int64_t>{4, 386'287'621}, {3, 571'133'957}}) {
    Job job = small_job("fsdp2-bf16", ranks);
    job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
    job.parallelism.fsdp = FullySharded{};
    job.parallelism.offload.parameters = true;
    const std::int64_t difference = recorded - host_of(job).pinned().value();
    CHECK(difference >= 0);
    CHECK(difference < kTables);
  }
}

TEST_CASE("a host is full at the byte, and near it from what the machine keeps", "[memory]") {
  Hardware hardware;
  hardware.count = 16;
  hardware.host_memory = Bytes(std::int64_t{1000} << 30);
  const HostNeed none = host_need_of(Bytes(), hardware);
  CHECK(none.ranks == 8);
  CHECK(none.of_node() == kHostProcess * 8);
  CHECK(none.capacity.source == kWrittenHost);
  const Bytes whole((std::int64_t{125} << 30) - kHostProcess.value());
  const Bytes offered((std::int64_t{925} << 27) - kHostProcess.value());
  CHECK(host_need_of(offered, hardware).verdict() == Verdict::fits);
  CHECK(host_need_of(offered + Bytes(1), hardware).verdict() == Verdict::too_close_to_call);
  CHECK(host_need_of(whole, hardware).verdict() == Verdict::too_close_to_call);
  CHECK(host_need_of(whole + Bytes(1), hardware).verdict() == Verdict::does_not_fit);
}

TEST_CASE("a node has what such nodes are rented with, else as much as its GPUs", "[memory]") {
  Hardware hardware;
  hardware.count = 2;
  hardware.gpu.capacity = {Bytes(23), Provenance::public_, "", ""};
  CHECK(host_capacity_of(hardware).bytes == Bytes(46));
  CHECK(host_capacity_of(hardware).provenance == Provenance::estimated);
  hardware.gpu.nominal_memory = Fact<Bytes>{Bytes(24), Provenance::datasheet, "", ""};
  CHECK(host_capacity_of(hardware).bytes == Bytes(48));
  hardware.gpu.host_memory = Fact<Bytes>{Bytes(62), Provenance::public_, "a list", ""};
  CHECK(host_capacity_of(hardware).bytes == Bytes(124));
  CHECK(host_capacity_of(hardware).source == "a list");
  hardware.count = 512;
  CHECK(host_capacity_of(hardware).bytes == Bytes(8 * 62));
  hardware.host_memory = Bytes(7);
  CHECK(host_capacity_of(hardware).bytes == Bytes(7));
}

TEST_CASE("only what is offloaded takes the host's memory", "[memory]") {
  Job job = small_job("mixed", 4);
  job.parallelism.zero = ZeroStage::optimizer_gradients;
  for (const HostTerm& term : host_of(job).terms) {
    CHECK(term.taken() >= term.bytes);
    CHECK_FALSE(term.formula.empty());
    CHECK_FALSE(term.source.empty());
  }
  job.parallelism.offload.optimizer = false;
  CHECK_FALSE(host_memory_of(lowered(job), job));
}

TEST_CASE("an offloaded optimizer leaves no state, no master and no step on the device",
          "[memory]") {
  for (const ZeroStage stage : {ZeroStage::optimizer, ZeroStage::optimizer_gradients}) {
    Job job = small_job("mixed", 4);
    job.model = llama(2, 256, 4, 2, 704);
    job.training->seq_len = 128;
    job.parallelism.zero = stage;
    const Graph graph = lowered(job);
    const Timeline timeline = std::get<Timeline>(write_timeline(graph, job));
    for (const Storage& storage : timeline.storages) {
      CHECK(storage.label.holding != Holding::optimizer_states);
      CHECK(storage.label.phase != Phase::optimizer);
    }
    const Ledger ledger = write_ledger(graph, job);
    for (const LedgerTerm& term : ledger.terms) CHECK(term.group != TermGroup::optimizer);
    Job kept = job;
    kept.parallelism.offload.optimizer = false;
    const Ledger with_states = write_ledger(graph, kept);
    CHECK(peak_allocated(ledger, ledger.bindings) <
          peak_allocated(with_states, with_states.bindings));
  }
}

TEST_CASE("with everything on the host FSDP2's device holds no shard between its units",
          "[memory]") {
  Job job = small_job("fsdp2-bf16", 4);
  job.model = llama(2, 256, 4, 2, 704);
  job.training->seq_len = 128;
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.fsdp = FullySharded{};
  job.parallelism.offload.parameters = true;
  const Timeline timeline = std::get<Timeline>(write_timeline(lowered(job), job));
  std::vector<bool> alive(timeline.storages.size(), false);
  for (const Event& event : timeline.events) {
    alive[event.storage] = event.kind == EventKind::allocate;
  }
  for (std::size_t i = 0; i < alive.size(); ++i) {
    if (!alive[i]) continue;
    const Holding holding = timeline.storages[i].label.holding;
    CHECK(holding != Holding::weights);
    CHECK(holding != Holding::gradients);
    CHECK(holding != Holding::gathered_weights);
    CHECK(holding != Holding::collective_buffers);
  }
}

}  // namespace memest
