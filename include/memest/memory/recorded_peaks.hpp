// The highest allocated and reserved bytes of a recorded trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "memest/spec/allocator_trace.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// How a peak is known.
enum class PeakSource : std::uint8_t {
  statistics,  ///< the record has PyTorch's own at its markers
  replay,      ///< its events, through the model of the allocator, which agrees with all segments
  sum  ///< of sizes rounded up to 512 B: at least so much, as blocks may be larger than asked for
};
/// "statistics", "replay", "sum".
std::string_view name_of(PeakSource source);

struct RecordedPeaks {
  Bytes allocated;
  std::optional<Bytes> reserved;  ///< absent where the record has no segments
  PeakSource source = PeakSource::sum;
};

/// The peaks of the whole record, with what was there when it began.
RecordedPeaks peaks_of(const AllocatorTrace& trace);

}  // namespace memest
