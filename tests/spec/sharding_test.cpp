#include "memest/spec/parallel/sharding.hpp"

#include <catch2/catch_test_macros.hpp>

#include "memest/spec/framework.hpp"

using namespace memest;

namespace {

Job job_under(Framework framework) {
  Job job;
  job.training.emplace();
  job.training->implementation = row_of(framework).own;
  return job;
}

FullySharded version(int number) {
  FullySharded fsdp;
  fsdp.version = number;
  return fsdp;
}

}  // namespace

TEST_CASE("alone a GPU shards nothing, unless its optimizer is offloaded") {
  Job job = job_under(default_framework(false));
  CHECK(shards_by<Unsharded>(job));
  job.parallelism.zero = ZeroStage::optimizer;
  CHECK(shards_by<Unsharded>(job));
  job.parallelism.offload.optimizer = true;
  CHECK(shards_by<DeepSpeedZero>(job));
}

TEST_CASE("replicas are reduced as their framework does it") {
  for (const Framework framework : frameworks()) {
    const FrameworkRow& row = row_of(framework);
    INFO(row.name);
    Job job = job_under(framework);
    job.parallelism.data = 2;
    CHECK(shards_by<ReplicasOfDdp>(job) == row.ddp);
    CHECK(shards_by<MegatronBuffer>(job) == (row.sharer == Sharer::megatron));
    CHECK(shards_by<GradientAccumulator>(job) == (row.sharer == Sharer::nanotron));
    CHECK((shards_by<MegatronBuffer>(job) || shards_by<GradientAccumulator>(job)) ==
          row.gradient_buffer);
    // A row whose ranks are all FSDP2's has no replicas without it.
    CHECK(shards_by<Unsharded>(job) == (row.is_formula || shards_all_ranks(row)));
  }
}

TEST_CASE("ZeRO is DeepSpeed's where a framework runs that, elsewhere a formula or Megatron's") {
  for (const Framework framework : frameworks()) {
    const FrameworkRow& row = row_of(framework);
    INFO(row.name);
    Job job = job_under(framework);
    job.parallelism.data = 2;
    job.parallelism.zero = ZeroStage::optimizer;
    CHECK(shards_by<DeepSpeedZero>(job) == (row.sharer == Sharer::deepspeed));
    CHECK(shards_by<MegatronBuffer>(job) == (row.sharer == Sharer::megatron));
    CHECK(shards_by<GradientAccumulator>(job) == (row.sharer == Sharer::nanotron));
    const bool formula = row.sharer == Sharer::none || row.sharer == Sharer::zero_stages;
    CHECK(shards_by<SharesOfFormula>(job) == formula);
  }
}

TEST_CASE("FSDP goes before ZeRO, whose stage it says") {
  Job job = job_under(default_framework(false));
  job.parallelism.data = 2;
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.fsdp = version(1);
  CHECK(shards_by<FlatShards>(job));
  job.parallelism.fsdp = version(2);
  CHECK(shards_by<RowShards>(job));
}

TEST_CASE("a precision that gathers units cuts everything") {
  Job job = job_under(default_framework(false));
  job.parallelism.data = 2;
  job.training->recipe.gathered_units = true;
  REQUIRE(shards_by<SharesOfFormula>(job));
  CHECK(std::get<SharesOfFormula>(sharding_of(job)).stage ==
        ZeroStage::optimizer_gradients_weights);
}
