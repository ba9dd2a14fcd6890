// Gradient accumulation under accelerate's no_sync(): whole gradients stay until a step's last
// micro-step reduces them. Properties over drawn jobs.
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

Job trainer_job(std::mt19937& random) {
  const Drawer draw(random);
  Job job = job_of("accelerate-fsdp2-bf16", "adamw");
  job.model = drawn_llama(draw);
  job.training->implementation.loop = LoopKind::trainer;
  job.training->micro_batch = draw({1, 2});
  job.training->seq_len = draw({64, 128});
  job.training->gradient_accumulation = draw({2, 3, 5});
  job.training->steps = 2;
  job.parallelism.data = draw({2, 4, 8});
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  job.parallelism.fsdp = FullySharded{};
  job.hardware.count = job.parallelism.data;
  return job;
}

/// Bytes that are alive when the first micro-steps' last backward of step 2 begins, by what they
/// are.
struct Alive {
  std::int64_t whole = 0;
  std::int64_t shares = 0;
};

Alive alive_before(const Timeline& timeline, std::uint16_t micro_step) {
  const auto span =
      std::find_if(timeline.spans.begin(), timeline.spans.end(), [&](const Span& one) {
        return one.phase == Phase::forward && one.step == 2 && one.micro_step == micro_step;
      });
  REQUIRE(span != timeline.spans.end());
  Alive alive;
  for (std::uint32_t i = 0; i < span->begin; ++i) {
    const Event& event = timeline.events[i];
    const Storage& storage = timeline.storages[event.storage];
    if (storage.label.holding != Holding::gradients) continue;
    const bool share = storage.label.origin == Origin::unit &&
                       storage.label.tensor == static_cast<std::uint16_t>(UnitTensor::gradients);
    (share ? alive.shares : alive.whole) +=
        event.kind == EventKind::allocate ? storage.bytes : -storage.bytes;
  }
  return alive;
}

}  // namespace

TEST_CASE("between the Trainer's micro-steps FSDP2 holds every gradient whole, and no share",
          "[memory]") {
  std::mt19937 random(15);
  for (int i = 0; i < kDraws; ++i) {
    const Job job = trainer_job(random);
    const auto answer = write_timeline(lowered(job), job);
    const auto& timeline = std::get<Timeline>(answer);
    const std::int64_t parameters = ledger_of(job).bindings.at(Symbol::parameters);
    INFO(i << ": " << parameters << " parameters on " << job.parallelism.data);
    const auto last = static_cast<std::uint16_t>(job.training->gradient_accumulation);
    for (std::uint16_t micro_step = 2; micro_step <= last; ++micro_step) {
      const Alive alive = alive_before(timeline, micro_step);
      CHECK(alive.whole == 2 * parameters);
      CHECK(alive.shares == 0);
    }
  }
}

TEST_CASE("the closed form of held gradients is not below the replay's events", "[memory]") {
  std::mt19937 random(16);
  for (int i = 0; i < kDraws; ++i) {
    const Job job = trainer_job(random);
    const auto answer = write_timeline(lowered(job), job);
    const auto& timeline = std::get<Timeline>(answer);
    std::int64_t alive = 0;
    std::int64_t peak = 0;
    for (const Event& event : timeline.events) {
      const std::int64_t bytes = timeline.storages[event.storage].bytes;
      alive += event.kind == EventKind::allocate ? bytes : -bytes;
      peak = std::max(peak, alive);
    }
    const Ledger ledger = ledger_of(job);
    const double closed = estimate_memory(ledger, ledger.bindings).allocated().as_double();
    INFO(i << ": " << peak << " in the events, " << closed << " in the closed form");
    CHECK(closed > 0.98 * static_cast<double>(peak));
    CHECK(closed < 1.05 * static_cast<double>(peak));
  }
}

}  // namespace memest
