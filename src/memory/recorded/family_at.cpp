#include "memest/memory/recorded/family_at.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::int64_t kLargestPlayed = std::int64_t{1} << 50U;  // as traces have
constexpr std::int64_t kSmallestBlock = 512;  // kMinBlockSize of c10/core/CachingDeviceAllocator.h

std::variant<std::int64_t, NoSize> size_at(const RecordedFamily& family, const SizePoint& point,
                                           std::int64_t allocation) {
  const auto index = static_cast<std::size_t>(allocation);
  const auto size = family.formulas[family.formula_of[index]].evaluate_up(point);
  if (!size || *size > kLargestPlayed) return NoSize{allocation, std::nullopt};
  if (*size <= 0) return NoSize{allocation, size};
  return *size;
}

/// Whether all requests are granted at the point.
std::variant<bool, NoSize> fits_at(const RecordedFamily& family, const SizePoint& point,
                                   const PlayedDevice& device) {
  auto instance = trace_at(family, point);
  if (const auto* none = std::get_if<NoSize>(&instance)) return *none;
  AllocatorTrace& trace = std::get<AllocatorTrace>(instance);
  trace.device_memory = device.memory;
  return !play_requests(trace, device.settings, device.available).failed;
}

std::int64_t blocks_of(Bytes size) {
  return (size.value() + kSmallestBlock - 1) / kSmallestBlock * kSmallestBlock;
}

/// Events until the first moment at which most is allocated, that one too.
std::size_t events_until_peak(const AllocatorTrace& trace) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(trace.allocations));
  std::int64_t now = 0;
  std::int64_t most = 0;
  std::size_t until = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind == TraceEventKind::allocate) {
      std::int64_t& size = sizes[static_cast<std::size_t>(event.number)];
      size = blocks_of(event.size);
      now = checked_add(now, size);
    } else if (event.kind == TraceEventKind::free || event.kind == TraceEventKind::free_when_done) {
      now -= std::exchange(sizes[static_cast<std::size_t>(event.number)], 0);
    }
    if (now <= most) continue;
    most = now;
    until = i + 1;
  }
  return until;
}

}  // namespace

std::variant<AllocatorTrace, NoSize> trace_at(const RecordedFamily& family,
                                              const SizePoint& point) {
  AllocatorTrace trace = family.trace;
  for (TraceEvent& event : trace.events) {
    if (event.kind != TraceEventKind::allocate) continue;
    const auto size = size_at(family, point, event.number);
    if (const auto* none = std::get_if<NoSize>(&size)) return *none;
    event.size = Bytes(std::get<std::int64_t>(size));
  }
  return trace;
}

StepSlack slack_at(const RecordedFamily& family, const SizePoint& point) {
  StepSlack slack;
  for (const std::uint32_t index : family.formula_of) {
    if (!family.formulas[index].evaluate(point)) ++slack.rounded;
    const Bytes bytes(family.formulas[index].slack(point));
    if (bytes == Bytes()) continue;
    ++slack.requests;
    slack.most = std::max(slack.most, bytes);
  }
  return slack;
}

std::int64_t common_unit(const VariedSize& varied) {
  std::int64_t unit = 0;
  for (const std::int64_t value : varied.values) unit = std::gcd(unit, value);
  return unit;
}

SizeRange range_of(const VariedSize& varied, std::int64_t value) {
  if (value < varied.values.front() || value > varied.values.back()) return SizeRange::beyond;
  return value % common_unit(varied) == 0 ? SizeRange::seen : SizeRange::not_aligned;
}

std::variant<LargestSize, NoSize> find_largest_size(const RecordedFamily& family, SizePoint point,
                                                    std::size_t varied,
                                                    const PlayedDevice& device) {
  const std::int64_t unit = common_unit(family.varied[varied]);
  const std::int64_t no_limit = std::max((std::int64_t{1} << 40U) / unit, std::int64_t{1});
  std::int64_t fitting = 0;  // in units; 0 takes nothing
  std::int64_t next = family.varied[varied].values.front() / unit;
  const auto fits = [&](std::int64_t units) {
    point[varied] = units * unit;
    return fits_at(family, point, device);
  };
  while (true) {
    const auto answer = fits(next);
    if (const auto* none = std::get_if<NoSize>(&answer)) return *none;
    if (!std::get<bool>(answer)) break;
    fitting = next;
    if (fitting >= no_limit) return LargestSize{fitting * unit, std::nullopt};
    next = 2 * fitting;
  }
  while (next - fitting > 1) {
    const std::int64_t middle = fitting + (next - fitting) / 2;
    const auto answer = fits(middle);
    // Below the recorded values a formula may give no size: whatever fits has a larger one.
    const bool is_below = std::holds_alternative<NoSize>(answer);
    (is_below || std::get<bool>(answer) ? fitting : next) = middle;
  }
  LargestSize largest;
  if (fitting > 0) largest.value = fitting * unit;
  largest.next = next * unit;
  return largest;
}

std::vector<PlaceFormula> peak_formulas(const RecordedFamily& family, const SizePoint& point) {
  const auto instance = trace_at(family, point);
  const auto& trace = std::get<AllocatorTrace>(instance);
  std::map<std::int64_t, Bytes> alive;
  const std::size_t until = events_until_peak(trace);
  for (std::size_t i = 0; i < until; ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind == TraceEventKind::allocate) {
      alive.emplace(event.number, Bytes(blocks_of(event.size)));
    } else if (event.kind == TraceEventKind::free || event.kind == TraceEventKind::free_when_done) {
      alive.erase(event.number);
    }
  }
  std::vector<PlaceFormula> places;
  std::map<std::string_view, std::size_t> known;
  for (const auto& [allocation, bytes] : alive) {
    const std::string_view place = trace.place_of(allocation);
    const auto [entry, is_new] = known.try_emplace(place, places.size());
    if (is_new) places.push_back({std::string(place), 0, Bytes(), SizeFormula()});
    PlaceFormula& use = places[entry->second];
    ++use.allocations;
    use.bytes += bytes;
    use.formula =
        use.formula + family.formulas[family.formula_of[static_cast<std::size_t>(allocation)]];
  }
  std::ranges::stable_sort(places, std::ranges::greater(), &PlaceFormula::bytes);
  return places;
}

}  // namespace memest
