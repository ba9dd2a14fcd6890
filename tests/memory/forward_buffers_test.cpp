// Plans of one forward pass's buffers, by hand and against each other.
#include "memest/memory/forward_buffers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <variant>

#include "jobs.hpp"
#include "memest/graph/forward_storages.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

using namespace testing;

ForwardBuffers buffers_of(const Job& job) {
  return std::get<ForwardBuffers>(forward_buffers(lowered(job), AllocatorSettings()));
}

/// `layers` linear layers of `hidden` elements with a function between them.
Job stack(std::int64_t layers, std::int64_t hidden, ActivationFunction function) {
  Job job = job_of("fp32", "adamw");
  LayerList list;
  for (std::int64_t i = 0; i < layers; ++i) {
    list.blocks.push_back({.repeat = 1,
                           .block = {LinearLayer{.in = hidden, .out = hidden, .bias = false},
                                     ActivationLayer{function, false}}});
  }
  job.model.family = Family::layer_list;
  job.model.architecture = list;
  job.training->implementation = row_of(Framework::plain).own;
  job.training->seq_len = 1;
  job.training->micro_batch = 1;
  return job;
}

}  // namespace

TEST_CASE("a chain of layers takes two buffers in turn, however long it is", "[memory]") {
  constexpr std::int64_t kHidden = 1 << 20;
  constexpr std::int64_t kBuffer = 4 * kHidden;
  for (const std::int64_t layers : {2, 8, 64}) {
    const ForwardBuffers buffers = buffers_of(stack(layers, kHidden, ActivationFunction::relu));
    // Of the mean square at the end nothing is as large: one result of a layer and the loss.
    CHECK(buffers.as_they_are.apart >= 2 * layers * kBuffer);
    CHECK(buffers.as_they_are.counted >= 2 * kBuffer);
    CHECK(buffers.as_they_are.counted < 3 * kBuffer);
    CHECK(buffers.in_place.apart >= layers * kBuffer);
    CHECK(buffers.in_place.apart < (layers + 2) * kBuffer);
    CHECK(buffers.in_place.counted < 3 * kBuffer);
  }
}

TEST_CASE("no plan is below what is alive at once, and sharing never takes more", "[memory]") {
  std::vector<Job> jobs;
  for (const std::int64_t layers : {1, 3, 9}) {
    jobs.push_back(stack(layers, 512 * layers, ActivationFunction::gelu));
    Job job = job_of("bf16", "adamw");
    job.model = llama(layers, 512, 8, 4, 1408);
    jobs.push_back(job);
  }
  for (const Job& job : jobs) {
    const ForwardBuffers buffers = buffers_of(job);
    for (const BufferHeights& heights : {buffers.as_they_are, buffers.in_place}) {
      CHECK(heights.bound <= heights.packed);
      CHECK(heights.bound <= heights.counted);
      CHECK(heights.bound <= heights.cached);
      CHECK(heights.counted <= heights.apart);
      CHECK(heights.packed <= heights.apart);
    }
    CHECK(buffers.in_place.bound <= buffers.as_they_are.bound);
    CHECK(buffers.in_place.apart <= buffers.as_they_are.apart);
    CHECK(buffers.in_place.buffers <= buffers.as_they_are.buffers);
  }
}

}  // namespace memest
