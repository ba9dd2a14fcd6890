#include "report/timeline/packing_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "memest/memory/storage_maker.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/csv.hpp"

namespace memest {
namespace {

/// Over all arenas, side by side.
template <class Height>
std::int64_t sum_of(const TimelineRun& run, Height height) {
  std::int64_t sum = 0;
  for (const Arena& arena : run.arenas) sum += height(arena);
  return sum;
}

std::int64_t bound_of(const TimelineRun& run) {
  return sum_of(run, [](const Arena& arena) { return arena.bound; });
}

std::string over_bound(std::int64_t height, std::int64_t bound) {
  if (height == bound) return "equal";
  const double share =
      static_cast<double>(height - bound) / static_cast<double>(std::max<std::int64_t>(bound, 1));
  return fmt::format("{:+.2f} %", 100 * share);
}

/// Indices of an arena's storages, lowest first.
std::vector<std::size_t> by_offset(const Arena& arena) {
  std::vector<std::size_t> order(arena.storages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return arena.packing.offsets[left] < arena.packing.offsets[right];
  });
  return order;
}

}  // namespace

Table packing_table(const TimelineRun& run) {
  Table table{
      {{"one arena for all tensors"}, {"bytes", Align::right}, {"over the bound", Align::right}},
      {}};
  const std::int64_t bound = bound_of(run);
  const auto add = [&](const char* name, std::int64_t height, std::string over) {
    table.rows.push_back({{name, sized_text(Bytes(height)), std::move(over)}, "", Tone::plain});
  };
  const std::int64_t by_size = sum_of(run, [](const Arena& arena) { return arena.by_size; });
  const std::int64_t packed = sum_of(run, [](const Arena& arena) { return arena.packing.height; });
  add("alive at once, which no arena is below", bound, "");
  add("best fit by size", by_size, over_bound(by_size, bound));
  add("best order, and a local search", packed, over_bound(packed, bound));
  if (!run.memory.replay.out_of_memory) {
    const std::int64_t reserved = run.memory.replay.statistics.reserved.peak.value();
    add("PyTorch's caching allocator", reserved, over_bound(reserved, bound));
  }
  return table;
}

std::string packing_sentence(const TimelineRun& run) {
  if (run.arenas.size() < 2) return "";
  return fmt::format(
      "{} arenas, one a stream, are added up: what one stream frees another may still read.",
      run.arenas.size());
}

Json packing_json(const TimelineRun& run) {
  Json arenas = Json::array();
  for (const Arena& arena : run.arenas) {
    arenas.push_back({{"stream", arena.stream.number()},
                      {"tensors", arena.storages.size()},
                      {"bound_bytes", arena.bound},
                      {"best_fit_bytes", arena.by_size},
                      {"packed_bytes", arena.packing.height}});
  }
  return arenas;
}

std::string packing_csv(const TimelineRun& run) {
  constexpr std::size_t kColumns = 9;
  using CsvCells = std::array<std::string, kColumns>;
  const Timeline& timeline = run.memory.timeline;
  std::string out;
  append_csv_line(out, CsvCells{"stream", "offset", "bytes", "begin_event", "end_event", "block",
                                "op", "tensor", "holding"});
  for (const Arena& arena : run.arenas) {
    for (const std::size_t i : by_offset(arena)) {
      const Lifetime& lifetime = arena.lifetimes[i];
      StorageMaker maker = maker_of(timeline, run.memory.graph, arena.storages[i]);
      const Label& label = timeline.storages[arena.storages[i]].label;
      append_csv_line(
          out,
          CsvCells{std::to_string(arena.stream.number()), std::to_string(arena.packing.offsets[i]),
                   std::to_string(lifetime.bytes), std::to_string(lifetime.begin),
                   std::to_string(lifetime.end), std::move(maker.block), std::move(maker.op),
                   std::move(maker.tensor), std::string(name_of(label.holding))});
    }
  }
  return out;
}

}  // namespace memest
