// The replay of a step is ten thousand allocations and frees, and a search replays many steps. The
// aim: 10 million events a second on one core.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <random>
#include <vector>

#include "memest/memory/caching_allocator.hpp"

namespace memest {
namespace {

/// An event of a step: allocates `size` into `slot`, or frees the slot where `size` is 0.
struct Event {
  std::int64_t size = 0;
  std::size_t slot = 0;
};

/// A transformer's training step as the allocator sees it: in the forward each layer keeps a dozen
/// tensors and frees as many temporaries, in the backward it frees them in reverse between
/// temporaries and gradients, which the optimizer frees at the end.
std::vector<Event> training_step(std::size_t layers) {
  constexpr std::size_t kSaved = 14;
  constexpr std::size_t kTemporaries = 40;
  constexpr std::size_t kGradients = 9;
  const std::vector<std::int64_t> sizes = {33'554'432, 67'108'864, 8'388'608,   117'440'512,
                                           32'768,     16'777'216, 100'663'296, 4'096};
  std::mt19937 random(7);
  std::vector<Event> events;
  std::vector<std::size_t> saved;
  std::vector<std::size_t> gradients;
  std::size_t slots = 0;
  const auto allocate = [&] {
    events.push_back({sizes[random() % sizes.size()], slots});
    return slots++;
  };
  const auto free = [&](std::size_t slot) { events.push_back({0, slot}); };
  const auto temporaries = [&] {
    std::size_t last = allocate();
    for (std::size_t i = 1; i < kTemporaries; ++i) {
      const std::size_t next = allocate();
      free(last);
      last = next;
    }
    free(last);
  };
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (std::size_t i = 0; i < kSaved; ++i) saved.push_back(allocate());
    temporaries();
  }
  for (std::size_t layer = 0; layer < layers; ++layer) {
    temporaries();
    for (std::size_t i = 0; i < kGradients; ++i) gradients.push_back(allocate());
    for (std::size_t i = 0; i < kSaved; ++i) {
      free(saved.back());
      saved.pop_back();
    }
  }
  for (const std::size_t slot : gradients) free(slot);
  return events;
}

void step(benchmark::State& state, bool expandable) {
  const std::vector<Event> events = training_step(static_cast<std::size_t>(state.range(0)));
  std::vector<BlockId> slots(events.size());
  PredictedDevice device(Bytes(4096 * kGiB));
  AllocatorSettings settings;
  settings.expandable_segments = expandable;
  CachingAllocator allocator(settings, {}, device);
  for (auto _ : state) {
    for (const Event& event : events) {
      if (event.size > 0) {
        slots[event.slot] = *allocator.allocate(Bytes(event.size), 0);
      } else {
        allocator.free(slots[event.slot]);
      }
    }
    benchmark::DoNotOptimize(allocator.statistics());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(events.size()));
}
BENCHMARK_CAPTURE(step, segments, false)->Arg(32)->Arg(96);
BENCHMARK_CAPTURE(step, expandable_segments, true)->Arg(32)->Arg(96);

}  // namespace
}  // namespace memest
