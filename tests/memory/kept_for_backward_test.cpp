// What a recorded forward leaves for its backward, by module.
#include "memest/memory/recorded/kept_for_backward.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace memest {
namespace {

constexpr Bytes kMiB(std::int64_t{1} << 20U);

struct Traced {
  Traced() { trace.modules = {{}, {"Linear", "fc"}, {"GELU", "act"}}; }

  void allocate(Bytes size, std::uint32_t module) {
    trace.events.push_back({TraceEventKind::allocate, 0, 0, size, trace.allocations++});
    trace.made_in.push_back(module);
  }
  void free(std::int64_t allocation) {
    trace.events.push_back({TraceEventKind::free, 0, 0, {}, allocation});
  }
  void mark(const std::string& name) {
    trace.events.push_back(
        {TraceEventKind::marker, 0, 0, {}, static_cast<std::int64_t>(trace.markers.size())});
    trace.markers.push_back({name, 0, {}});
  }

  AllocatorTrace trace;
};

TEST_CASE("what a forward leaves is what it allocated and did not free, by its modules") {
  Traced run;
  run.allocate(kMiB * 9, 0);  // weights
  run.allocate(kMiB, 1);
  run.allocate(kMiB * 2, 2);
  run.mark("peaks");  // ends no phase
  run.free(1);
  run.mark("step1.forward");
  const KeptForBackward first = kept_for_backward(run.trace);
  CHECK(first.phase == "step1.forward");
  CHECK(first.bytes == kMiB * 2);  // without the weights, which stand before all modules

  run.allocate(kMiB, 0);  // a gradient
  run.mark("step1.backward");
  run.mark("step1.optimizer");
  run.allocate(Bytes(8), 0);  // a batch
  run.allocate(kMiB, 1);
  run.allocate(kMiB, 2);
  run.allocate(kMiB, 2);
  run.mark("step2.forward");
  run.allocate(kMiB, 1);
  run.mark("step2.forward");  // of a second micro-batch
  run.allocate(kMiB, 1);
  run.mark("step3.forward");
  const KeptForBackward second = kept_for_backward(run.trace);
  CHECK(second.phase == "step2.forward");
  CHECK(second.bytes == kMiB * 3 + Bytes(512));
  REQUIRE(second.modules.size() == 3);
  CHECK(run.trace.modules[second.modules[0].module].name == "act");
  CHECK(second.modules[0].allocations == 2);
  CHECK(second.modules[0].bytes == kMiB * 2);
  CHECK(second.modules[1].bytes == kMiB);
  CHECK(second.modules[2].module == 0);
}

TEST_CASE("a trace without modules tells nothing of what is kept") {
  Traced run;
  run.allocate(kMiB, 0);
  run.mark("step1.forward");
  CHECK(kept_for_backward(run.trace).phase.empty());
  run.trace.made_in.clear();
  CHECK(kept_for_backward(run.trace).phase.empty());
  CHECK(kept_for_backward({}).modules.empty());
}

}  // namespace
}  // namespace memest
