// What a refusal proposes is a job that can be.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>

#include "jobs.hpp"
#include "plan/layouts/refusal.hpp"
#include "plan/layouts/space.hpp"

namespace memest::test {
namespace {

TEST_CASE("a change keeps as many replicas as experts are dealt to") {
  const Job job = job_from(
      "model: {family: decoder, layers: 8, hidden_size: 256, heads: 4, kv_heads: 4, "
      "vocab_size: 1024, activation: swiglu, norm: rmsnorm, position: rope, max_positions: 2048, "
      "moe: {experts: 8, top_k: 2, expert_ffn_size: 256}}\n"
      "training: {micro_batch: 1, seq_len: 64, precision: megatron, implementation: megatron}\n"
      "hardware: {gpu: h100-sxm-80gb}\n");
  std::size_t changed = 0;
  for (const std::int64_t gpus : {2, 8, 16}) {
    for (const Parallelism& layout : layout_choices(job, gpus)) {
      Job laid = job;
      laid.hardware.count = gpus;
      laid.lay_over(layout);
      for (const Change& change : changes_of(laid)) {
        Job other = laid;
        change.apply(other);
        ++changed;
        CHECK(other.parallelism.expert_ranks() % other.parallelism.expert == 0);
      }
    }
  }
  CHECK(changed > 100);
}

}  // namespace
}  // namespace memest::test
