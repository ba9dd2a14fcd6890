// What FSDP finds of a model before it makes its shards: nothing, all of it on the host, or all of
// it on the GPU. Properties over drawn jobs.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "drawn_models.hpp"
#include "jobs.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {
namespace {

using namespace testing;

constexpr int kDraws = 60;

Job sharded_job(std::mt19937& random) {
  const Drawer draw(random);
  Job job = job_of("fsdp2-bf16", "adamw");
  job.model = drawn_llama(draw);
  job.training->micro_batch = 1;
  job.training->seq_len = 64;
  job.training->steps = 1;
  job.parallelism.data = draw({2, 3, 4, 8});
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.fsdp = FullySharded{.version = static_cast<int>(draw({1, 2}))};
  job.parallelism.fsdp->sync_module_states = job.parallelism.shards_flat() && draw({0, 1}) == 1;
  job.hardware.count = job.parallelism.data;
  return job;
}

/// The most that is alive before the first step, and what is when it begins.
struct Course {
  std::int64_t peak = 0;
  std::int64_t end = 0;
};

Course before_first_step(Job job, ShardInit init) {
  job.parallelism.fsdp->init = init;
  const auto answer = write_timeline(lowered(job), job);
  const auto& timeline = std::get<Timeline>(answer);
  Course course;
  for (std::uint32_t i = 0; i < timeline.spans.front().end; ++i) {
    const std::int64_t bytes = timeline.storages[timeline.events[i].storage].bytes;
    course.end += timeline.events[i].kind == EventKind::allocate ? bytes : -bytes;
    course.peak = std::max(course.peak, course.end);
  }
  return course;
}

/// The highest moment of the closed form before the first step.
double closed_form(Job job, ShardInit init) {
  job.parallelism.fsdp->init = init;
  const Ledger ledger = ledger_of(job);
  double most = 0;
  for (const InstantTotal& total : estimate_of(ledger).instants) {
    const bool before = ledger.instants[total.index].name.ends_with("before the first step");
    if (before) most = std::max(most, total.total.as_double());
  }
  return most;
}

}  // namespace

TEST_CASE("a model on the GPU is there whole before it is sharded; then every way left the same",
          "[memory]") {
  std::mt19937 random(17);
  for (int i = 0; i < kDraws; ++i) {
    const Job job = sharded_job(random);
    const std::int64_t whole = 4 * ledger_of(job).bindings.at(Symbol::parameters);
    const Course meta = before_first_step(job, ShardInit::meta);
    const Course host = before_first_step(job, ShardInit::host);
    const Course device = before_first_step(job, ShardInit::device);
    INFO(i << ": " << whole << " B of weights on " << job.parallelism.data << " ranks, FSDP"
           << job.parallelism.fsdp->version);
    CHECK(device.peak > whole);
    CHECK(device.peak >= host.peak);
    CHECK(host.peak >= meta.peak);
    CHECK(device.end == host.end);
    CHECK(host.end == meta.end);
    CHECK(host.end < whole);
  }
}

TEST_CASE("the closed form has the peak before the first step", "[memory]") {
  std::mt19937 random(18);
  for (int i = 0; i < kDraws; ++i) {
    const Job job = sharded_job(random);
    for (const ShardInit init : {ShardInit::host, ShardInit::device}) {
      const auto peak = static_cast<double>(before_first_step(job, init).peak);
      const double closed = closed_form(job, init);
      INFO(i << ", " << name_of(init) << ": " << peak << " in the events, " << closed
             << " in the closed form");
      CHECK(closed > 0.98 * peak);
      CHECK(closed < 1.05 * peak);
    }
  }
}

}  // namespace memest
