// A list of layers written out is what the same list says in repeats, at no greater cost.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <memory>
#include <string>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

Job job_of(const std::string& layers) {
  const auto source = std::make_shared<const SourceText>(
      SourceText{"list.yaml", "model: {layers: [" + layers +
                                  "]}\ntraining: {seq_len: 128}\nhardware: {gpu: "
                                  "h100-sxm-80gb}\n"});
  return read_job(source).value();
}

std::string times(int count, const std::string& layers) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + layers;
  return text;
}

}  // namespace

TEST_CASE("thousands of equal layers are a few blocks") {
  const Job job = job_of(times(2000, "{linear: {in: 64, out: 64}}, {relu: {}}"));
  const auto memory = std::get<StepMemory>(step_memory_of(job, {0}));
  CHECK(memory.graph.order.size() == 4001);
  CHECK(memory.graph.blocks.size() <= 5);
}

TEST_CASE("layers written out take the memory and the FLOPs of the same in a repeat") {
  const std::string layers = GENERATE(
      "{linear: {in: 64, out: 64}}, {relu: {}}", "{layernorm: {size: 48}}, {gelu: {}}",
      "{linear: {in: 32, out: 96}}, {silu: {}}, {linear: {in: 96, out: 32}}, {dropout: {}}",
      "{rmsnorm: {size: 16}}, {softmax: {}}, {linear: {in: 16, out: 16}}, {relu: {in_place: "
      "true}}");
  const int count = GENERATE(1, 2, 3, 7);
  INFO(count << " times " << layers);
  const Job apart = job_of(times(count, layers));
  const Job together = job_of("{repeat: " + std::to_string(count) + ", block: [" + layers + "]}");
  const auto left = std::get<StepMemory>(step_memory_of(apart, {0}));
  const auto right = std::get<StepMemory>(step_memory_of(together, {0}));
  CHECK(left.replay.peak.allocated == right.replay.peak.allocated);
  CHECK(left.replay.statistics.reserved.peak == right.replay.statistics.reserved.peak);
  const JobEstimate first = estimate_job(apart);
  const JobEstimate second = estimate_job(together);
  CHECK(first.parameters.total == second.parameters.total);
  CHECK(std::get<FlopsEstimate>(first.flops).forward ==
        std::get<FlopsEstimate>(second.flops).forward);
  CHECK(std::get<FlopsEstimate>(first.flops).backward ==
        std::get<FlopsEstimate>(second.flops).backward);
}

TEST_CASE("a timeline that would take gigabytes is refused before it is written") {
  const Job job = job_of("{repeat: 10000, block: [" +
                         times(60, "{linear: {in: 8, out: 8}}, {relu: {}}") + "]}");
  const auto memory = step_memory_of(job, {0});
  REQUIRE(std::holds_alternative<Unavailable>(memory));
  CHECK(std::get<Unavailable>(memory).sentence ==
        "a timeline of more than 6 million events is not available");
}

}  // namespace memest
