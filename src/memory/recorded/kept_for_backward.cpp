#include "memest/memory/recorded/kept_for_backward.hpp"

#include <algorithm>
#include <string_view>

#include "memest/memory/caching_allocator.hpp"
#include "memest/spec/recorded/phase_name.hpp"

namespace memest {
namespace {

std::size_t count_of(const AllocatorTrace& trace) {
  return static_cast<std::size_t>(trace.allocations);
}

/// Blocks by allocation; 0 where it is not alive.
using Blocks = std::vector<Bytes>;

/// The first allocation from `begin` on that a module made; beyond them all where none did.
std::size_t first_in_module(const AllocatorTrace& trace, std::size_t begin) {
  while (begin < trace.made_in.size() && trace.made_in[begin] == 0) ++begin;
  return begin < trace.made_in.size() ? begin : count_of(trace);
}

KeptForBackward sum_of(const AllocatorTrace& trace, const Blocks& blocks, std::size_t begin,
                       std::size_t end) {
  KeptForBackward kept;
  std::vector<ModuleUse> uses(trace.modules.size());
  for (std::size_t i = 0; i < uses.size(); ++i) uses[i].module = i;
  for (std::size_t i = begin; i < end; ++i) {
    if (blocks[i] == Bytes()) continue;
    ModuleUse& use = uses[trace.module_of(static_cast<std::int64_t>(i))];
    ++use.allocations;
    use.bytes += blocks[i];
    kept.bytes += blocks[i];
  }
  std::erase_if(uses, [](const ModuleUse& use) { return use.allocations == 0; });
  std::ranges::stable_sort(uses, std::ranges::greater(), &ModuleUse::bytes);
  kept.modules = std::move(uses);
  return kept;
}

}  // namespace

KeptForBackward kept_for_backward(const AllocatorTrace& trace) {
  KeptForBackward kept;
  Blocks blocks(count_of(trace));
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string_view step;
  int told = 0;
  for (const TraceEvent& event : trace.events) {
    const auto number = static_cast<std::size_t>(event.number);
    if (event.kind == TraceEventKind::allocate) {
      blocks[number] = rounded_request(event.size, {});
      end = number + 1;
    } else if (event.kind == TraceEventKind::free || event.kind == TraceEventKind::free_when_done) {
      blocks[number] = Bytes();
    } else if (event.kind == TraceEventKind::marker) {
      const auto name = split_phase(trace.markers[number].name);
      if (!name) continue;
      const std::size_t first = first_in_module(trace, begin);
      const bool is_told = name->phase == "forward" && first < end && told < 2;
      if (is_told && name->step != step) {
        ++told;
        kept = sum_of(trace, blocks, begin == 0 ? first : begin, end);
        kept.phase = trace.markers[number].name;
        step = name->step;
      }
      begin = end;
    }
  }
  return kept;
}

}  // namespace memest
