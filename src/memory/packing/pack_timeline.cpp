#include <algorithm>
#include <cstddef>
#include <vector>

#include "memest/memory/packing.hpp"
#include "memory/allocator/block.hpp"

namespace memest {
namespace {

std::vector<Lifetime> lifetimes_of(const Timeline& timeline) {
  std::vector<Lifetime> lifetimes(timeline.storages.size());
  const auto end = static_cast<std::uint32_t>(timeline.events.size());
  for (std::uint32_t i = 0; i < end; ++i) {
    const Event event = timeline.events[i];
    Lifetime& lifetime = lifetimes[event.storage];
    if (event.kind == EventKind::allocate) {
      // CUDACachingAllocator.cpp, round_size: arenas and the allocator's blocks are of the same
      // sizes.
      lifetime = {round_up(timeline.storages[event.storage].bytes, kMinBlockSize), i, end};
    } else {
      lifetime.end = i;
    }
  }
  return lifetimes;
}

Arena& arena_of(std::vector<Arena>& arenas, PartStream stream) {
  const auto known = std::find_if(arenas.begin(), arenas.end(),
                                  [&](const Arena& arena) { return arena.stream == stream; });
  if (known != arenas.end()) return *known;
  Arena& fresh = arenas.emplace_back();
  fresh.stream = stream;
  return fresh;
}

}  // namespace

std::variant<std::vector<Arena>, Unavailable> pack_timeline(const Timeline& timeline) {
  if (timeline.storages.size() > kMostPacked) {
    return Unavailable{
        "an arena for more than 100,000 tensors is not available: fewer micro-steps "
        "(training.gradient_accumulation) or layers have fewer"};
  }
  std::vector<Arena> arenas;
  const std::vector<Lifetime> lifetimes = lifetimes_of(timeline);
  for (StorageId storage = 0; storage < lifetimes.size(); ++storage) {
    Arena& arena = arena_of(arenas, timeline.storages[storage].stream);
    arena.storages.push_back(storage);
    arena.lifetimes.push_back(lifetimes[storage]);
  }
  for (Arena& arena : arenas) {
    arena.bound = packing_bound(arena.lifetimes);
    arena.by_size = pack_by_size(arena.lifetimes).height;
    arena.packing = pack_by_search(arena.lifetimes);
  }
  return arenas;
}

}  // namespace memest
