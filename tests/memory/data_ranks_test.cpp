// Ranks that share the states of one stage: what each steps, and which of them are replayed.
#include "memest/memory/data_ranks.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <set>
#include <variant>
#include <vector>

#include "drawn_models.hpp"
#include "jobs.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {
namespace {

using namespace testing;

constexpr int kDraws = 60;

/// Under FSDP1 or DeepSpeed's ZeRO 1 or 2.
Job shared_job(const Drawer& draw) {
  const bool flat = draw({0, 1}) == 1;
  Job job = job_of(flat ? "fsdp2-bf16" : "mixed", "adamw");
  job.model = drawn_llama(draw);
  job.training->micro_batch = 1;
  job.training->seq_len = 64;
  job.training->steps = 1;
  job.parallelism.data = draw({2, 3, 5, 8, 40});
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  if (flat) {
    job.parallelism.fsdp = FullySharded{.version = 1};
  } else {
    job.parallelism.zero =
        draw({0, 1}) == 1 ? ZeroStage::optimizer : ZeroStage::optimizer_gradients;
    job.parallelism.deepspeed.reduce_bucket_size = 100'000;
  }
  job.hardware.count = job.parallelism.data;
  return job;
}

std::int64_t state_elements(const Job& job, std::int64_t rank) {
  const auto answer = write_timeline(lowered(job), job, {0, rank});
  std::int64_t bytes = 0;
  for (const Storage& storage : std::get<Timeline>(answer).storages) {
    const bool is_state = storage.label.holding == Holding::optimizer_states &&
                          storage.label.tensor != kMasterCopy && storage.bytes > 8;
    if (is_state) bytes += storage.bytes;
  }
  constexpr std::int64_t kTwoStates = 2 * 4;
  return bytes / kTwoStates;
}

}  // namespace

TEST_CASE("the ranks' shares of the states make up the whole", "[memory]") {
  std::mt19937 random(51);
  const Drawer draw(random);
  for (int i = 0; i < kDraws; ++i) {
    const Job job = shared_job(draw);
    INFO(i << ": " << (job.parallelism.fsdp ? "FSDP1" : "ZeRO") << " over "
           << job.parallelism.data);
    CHECK(data_ranks_of(job) == job.parallelism.data);
    const std::int64_t whole = ledger_of(job).bindings.at(Symbol::parameters);
    std::int64_t together = 0;
    for (std::int64_t rank = 0; rank < job.parallelism.data; ++rank) {
      together += state_elements(job, rank);
    }
    // Padding, of two elements a rank.
    CHECK(together >= whole);
    CHECK(together <= whole + 2 * job.parallelism.data);
  }
}

TEST_CASE("ranks are followed from the first on, each once, and all where they are few",
          "[memory]") {
  std::mt19937 random(52);
  const Drawer draw(random);
  for (int i = 0; i < kDraws; ++i) {
    const Job job = shared_job(draw);
    const FollowedRanks followed = followed_data_ranks(lowered(job), job);
    const std::set<std::int64_t> distinct(followed.ranks.begin(), followed.ranks.end());
    CHECK(followed.ranks.front() == 0);
    CHECK(distinct.size() == followed.ranks.size());
    CHECK(*distinct.begin() == 0);
    CHECK(*distinct.rbegin() < job.parallelism.data);
    CHECK(followed.outstanding <= followed.ranks.size());
    if (job.parallelism.data <= 8) CHECK(followed.all);
    CHECK(followed.ranks.size() <= 24);
  }
}

TEST_CASE("ranks that step alike are one", "[memory]") {
  Job job = job_of("mixed", "adamw");
  job.model = llama(2, 256, 4, 2, 704);
  job.parallelism.data = 8;
  CHECK(data_ranks_of(job) == 1);  // replicas
  job.parallelism.fsdp = FullySharded{.version = 2};
  CHECK(data_ranks_of(job) == 1);
  CHECK(followed_data_ranks(lowered(job), job).ranks == std::vector<std::int64_t>{0});
}

TEST_CASE("a million ranks are not looked at one by one", "[memory]") {
  Job job = job_of("mixed", "adamw");
  job.model = llama(2, 256, 4, 2, 704);
  job.parallelism.data = 1'000'000;
  job.parallelism.zero = ZeroStage::optimizer;
  const FollowedRanks followed = followed_data_ranks(lowered(job), job);
  CHECK(followed.ranks.size() <= 24);
  CHECK_FALSE(followed.all);
  CHECK(std::ranges::max(followed.ranks) > 900'000);
}

}  // namespace memest
