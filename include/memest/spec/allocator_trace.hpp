// An allocator trace: every allocation and free of a recorded run in order, the segments that
// PyTorch's allocator obtained and returned, and its statistics at markers. A recording has one, of
// a program on a device that computes nothing, and says how it came about.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/allocator.hpp"
#include "memest/spec/recorded/recorded_work.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

enum class TraceEventKind : std::uint8_t {
  allocate,          ///< `a ID SIZE STREAM`
  free,              ///< `f ID`
  free_when_done,    ///< `q ID`: freed, but still used by another stream until `f ID`
  out_of_memory,     ///< `o SIZE STREAM`: an allocation that failed
  empty_cache,       ///< `e`
  reset_peaks,       ///< `r`
  segment_obtained,  ///< `S ADDR SIZE STREAM`
  segment_returned,  ///< `s ADDR SIZE STREAM`
  mapped,            ///< `M ADDR SIZE STREAM`: pages of an expandable segment
  unmapped,          ///< `U ADDR SIZE STREAM`
  owner,             ///< `l N`: the following allocations belong to block N of the model
  marker             ///< `= NAME KEY=VALUE...`
};

/// Whether it tells of device memory: what the allocator did, not what it was asked for.
constexpr bool is_segment_event(TraceEventKind kind) {
  return kind >= TraceEventKind::segment_obtained && kind <= TraceEventKind::unmapped;
}

struct TraceEvent {
  TraceEventKind kind = TraceEventKind::allocate;
  std::int32_t line = 0;
  std::int32_t stream = 0;
  Bytes size;  ///< as requested; of out_of_memory, rounded
  /// allocate, free, free_when_done: which allocation, from 0 on. owner: the block, -1 for none.
  /// A marker: its index in AllocatorTrace::markers. A segment event: the address.
  std::int64_t number = 0;
};

/// The statistic that a marker tells, by the names that it is written with.
enum class TracedStatistic : std::uint8_t {
  allocated_bytes,
  reserved_bytes,
  active_bytes,
  inactive_split_bytes,
  requested_bytes,
  allocated_peak,
  reserved_peak,
  segments,
  active,
  inactive_split,
  retries,
  ooms
};
inline constexpr std::size_t kTracedStatistics = 12;
std::string_view name_of(TracedStatistic statistic);

struct TraceMarker {
  std::string name;  ///< the phase that ends: "forward"
  std::int32_t line = 0;
  std::array<std::optional<std::int64_t>, kTracedStatistics> statistics;  ///< as recorded
};

/// Memory that was allocated and reserved already when the recording began, as far as its end
/// tells.
struct EarlierBlocks {
  std::int64_t count = 0;
  Bytes allocated;
  Bytes reserved;
};

struct AllocatorTrace {
  std::string file;
  std::string name;           ///< of the case; empty where the header has none
  std::string settings_text;  ///< as PYTORCH_CUDA_ALLOC_CONF had it; "default" for none
  AllocatorSettings settings;
  std::optional<Bytes> capacity;  ///< capacity that set the memory fraction; absent: no limit
  Bytes device_memory;            ///< of the whole device
  Bytes context;                  ///< of it, the part that the allocator never has

  [[nodiscard]] Bytes available() const { return device_memory - context; }
  std::vector<TraceEvent> events;
  std::vector<TraceMarker> markers;
  std::int64_t allocations = 0;
  EarlierBlocks earlier = {};
  /// Where the program asked for memory, each place once: "modeling_llama.py:353 __init__".
  std::vector<std::string> places = {};
  /// By allocation, indices into `places`; empty where no stacks were recorded.
  std::vector<std::uint32_t> asked_at = {};
  /// Where the last allocation that failed was asked for; empty where none failed, or none is
  /// known.
  std::string failed_at = {};

  /// The modules of the program; the first stands for none.
  std::vector<RecordedModule> modules = {{}};
  /// By allocation, in whose forward it was made, as indices into `modules`; those behind its end
  /// were made in none's.
  std::vector<std::uint32_t> made_in = {};

  /// The module in whose forward an allocation was made, as an index into `modules`.
  [[nodiscard]] std::size_t module_of(std::int64_t allocation) const {
    const auto index = static_cast<std::size_t>(allocation);
    return index < made_in.size() ? made_in[index] : 0;
  }

  /// The place of an allocation; empty where none is known.
  [[nodiscard]] std::string_view place_of(std::int64_t allocation) const {
    const auto index = static_cast<std::size_t>(allocation);
    return index < asked_at.size() ? std::string_view(places[asked_at[index]]) : std::string_view();
  }
};

/// A value that the program read from the device, on which it may have branched: nothing computed
/// it.
struct DeviceRead {
  std::int64_t count = 0;
  Bytes size;
  std::int64_t first = 0;  ///< the first byte of what it was told
  std::string place;       ///< "train.py:40 main"; empty where no Python was running
};

/// One process that used a GPU.
struct Recording {
  AllocatorTrace trace;
  std::string torch;  ///< its release: "2.11.0+cu130"
  std::string rank;   ///< "3 of 8"; empty where the program is no rank of several
  std::string gpu;    ///< the GPU type that stood there: "h100-sxm-80gb"; empty where none is said
  /// The most that the device had handed out at once, PyTorch's segments among it; without the
  /// context. Absent where the process did not come to its end.
  std::optional<Bytes> device_peak;
  std::vector<DeviceRead> reads;
  bool stopped = false;         ///< behind the steps that were asked for
  bool masks_keep_all = false;  ///< masks that shaped what followed kept all they had
  /// The program's; absent where the recording does not say.
  std::optional<std::int64_t> exit_code = {};
  std::optional<RecordedWork> work;  ///< of one step, where it was watched
};

/// Whether the program came to its end: behind a failure nobody knows what it would have asked for.
bool is_whole(const Recording& recording);

}  // namespace memest
