#include "memest/spec/allocator_trace.hpp"

#include <algorithm>

namespace memest {

// torch.cuda.memory_stats(): allocated_bytes.all.current and .peak, segment.all.current,
// num_alloc_retries, num_ooms and so on.
std::string_view name_of(TracedStatistic statistic) {
  switch (statistic) {
    case TracedStatistic::allocated_bytes:
      return "allocated_bytes";
    case TracedStatistic::reserved_bytes:
      return "reserved_bytes";
    case TracedStatistic::active_bytes:
      return "active_bytes";
    case TracedStatistic::inactive_split_bytes:
      return "inactive_split_bytes";
    case TracedStatistic::requested_bytes:
      return "requested_bytes";
    case TracedStatistic::allocated_peak:
      return "allocated_peak";
    case TracedStatistic::reserved_peak:
      return "reserved_peak";
    case TracedStatistic::segments:
      return "segments";
    case TracedStatistic::active:
      return "active";
    case TracedStatistic::inactive_split:
      return "inactive_split";
    case TracedStatistic::retries:
      return "retries";
    case TracedStatistic::ooms:
      return "ooms";
  }
  return "";
}

bool is_whole(const Recording& recording) {
  if (recording.exit_code) return *recording.exit_code == 0;
  return std::ranges::none_of(recording.trace.events, [](const TraceEvent& event) {
    return event.kind == TraceEventKind::out_of_memory;
  });
}

}  // namespace memest
