// Steps of more micro-batches than are followed one by one: what all of them keep is there, a step
// leaves nothing behind, and the timeline does not grow with their number.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/plan/step_memory.hpp"

namespace memest {
namespace {

constexpr std::int64_t kRanks = 2;
constexpr std::int64_t kFollowed = 8 * kRanks;

struct Pipeline {
  std::string schedule;
  std::int64_t micro_batches = 1;
  std::string more;  ///< of `training`
  std::string loop = "torchtitan";
};

Job job_of(const Pipeline& pipeline, int layers = 6) {
  return test::job_from(
      "model: {family: decoder, layers: " + std::to_string(layers) +
      ", hidden_size: 256, heads: 4, head_dim: 64, kv_heads: 2, ffn_size: 704, vocab_size: 4000, "
      "norm: rmsnorm, position: rope, activation: swiglu, bias: false, tied_embeddings: false}\n"
      "training: {gradient_accumulation: " +
      std::to_string(pipeline.micro_batches) + ", " + pipeline.more +
      "precision: fsdp2-bf16, implementation: " + pipeline.loop +
      "}\nparallelism: {data: 2, pipeline: 2, schedule: " + pipeline.schedule +
      ", fsdp: {version: 2}}\nhardware: {gpu: h100-sxm-80gb}\n");
}

Timeline timeline_of(const Job& job, std::int64_t rank) {
  auto memory = step_memory_of(job, {rank});
  auto* step = std::get_if<StepMemory>(&memory);
  REQUIRE(step != nullptr);
  return std::move(step->timeline);
}

std::int64_t peak_of(const Pipeline& pipeline, std::int64_t rank) {
  return test::requested_peak(timeline_of(job_of(pipeline), rank));
}

const std::array<std::string, 6> kSchedules{"gpipe",       "1f1b", "interleaved",
                                            "zero-bubble", "zbv",  "dualpipe-v"};

TEST_CASE("micro-batches that are not followed keep what those that are keep") {
  test::Draws draws(1);
  for (const std::string& schedule : kSchedules) {
    for (int draw = 0; draw < 5; ++draw) {
      const bool splits =
          schedule == "zero-bubble" || schedule == "zbv" || schedule == "dualpipe-v";
      const std::string more = test::Text()
                               << "seq_len: " << draws.one_of("256", "1024", "2048")
                               << ", micro_batch: " << draws.one_of("1", "2") << ", recompute: "
                               << (splits ? "none" : draws.one_of("none", "full")) << ", ";
      for (std::int64_t rank = 0; rank < kRanks; ++rank) {
        const auto at = [&](std::int64_t count) { return peak_of({schedule, count, more}, rank); };
        const std::int64_t followed = at(kFollowed);
        const std::int64_t each = (followed - at(kFollowed - 4)) / 4;
        const std::int64_t many = 512;
        INFO(schedule << ", rank " << rank << ", " << more);
        CHECK(at(many) == followed + (many - kFollowed) * each);
      }
    }
  }
}

TEST_CASE("and the closed form counts the same, in every schedule") {
  for (const std::string& schedule : kSchedules) {
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      const Job job = job_of({schedule, 512, "seq_len: 1024, "});
      const auto memory = step_memory_of(job, {rank});
      const auto& step = std::get<StepMemory>(memory);
      const Ledger ledger = write_ledger(step.graph, job, rank);
      const auto closed = static_cast<double>(peak_allocated(ledger, ledger.bindings).value());
      const auto replayed = static_cast<double>(test::requested_peak(step.timeline));
      INFO(schedule << ", rank " << rank);
      CHECK(std::abs(closed - replayed) <= 0.05 * replayed);
    }
  }
}

TEST_CASE("a timeline does not grow with the micro-batches") {
  constexpr std::size_t kMostEvents = 600'000;
  for (const std::string& schedule : kSchedules) {
    const Job job = job_of({schedule, 65'536, "seq_len: 128, "});
    CHECK(timeline_of(job, 1).events.size() < kMostEvents);
  }
}

/// Bytes that are held when a step has ended.
std::vector<std::int64_t> held_after_steps(const Timeline& timeline) {
  std::vector<std::int64_t> held;
  std::int64_t now = 0;
  std::uint32_t event = 0;
  for (const Span& span : timeline.spans) {
    for (; event < span.end; ++event) {
      const std::int64_t bytes = timeline.storages[timeline.events[event].storage].bytes;
      now += timeline.events[event].kind == EventKind::allocate ? bytes : -bytes;
    }
    held.resize(std::max<std::size_t>(held.size(), span.step + std::size_t{1}));
    held[span.step] = now;
  }
  return held;
}

TEST_CASE("what a step leaves the next one takes away, in every schedule and loop") {
  for (const std::string& schedule : kSchedules) {
    for (const char* loop : {"torchtitan", "{name: torchtitan, loop: plain}"}) {
      for (const std::int64_t count : {8, 40}) {
        const Job job = job_of({schedule, count, "seq_len: 256, steps: 5, ", loop});
        const std::vector<std::int64_t> held = held_after_steps(timeline_of(job, 1));
        INFO(schedule << ", " << loop << ", " << count);
        REQUIRE(held.size() == 6);
        CHECK(held[3] == held[2]);
        CHECK(held[5] == held[2]);
      }
    }
  }
}

TEST_CASE("the batches of all micro-steps stay with torchtitan's step, followed or not") {
  const auto peak = [](std::int64_t count) {
    const Job job = test::llama(
        "seq_len: 1024, implementation: torchtitan, precision: fsdp2-bf16, "
        "recompute: full, gradient_accumulation: " +
            std::to_string(count),
        "parallelism: {data: 8, fsdp: {version: 2}}\n"
        "hardware: {gpu: h100-sxm-80gb}\n");
    return test::requested_peak(timeline_of(job, 0));
  };
  const std::int64_t each = peak(8) - peak(7);
  CHECK(each >= 1024 * 8);
  CHECK(peak(1000) == peak(8) + 992 * each);
}

}  // namespace
}  // namespace memest
