// Any bytes as an allocator trace: a trace that replays, equal or not, or diagnostics that can be
// shown, and nothing else.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "memest/memory/replay.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/units/int128.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace memest;
  const auto source =
      std::make_shared<const SourceText>(SourceText{"fuzz.trace", std::string(data, data + size)});
  const Checked<AllocatorTrace> trace = read_trace(source);
  if (!trace.ok()) {
    expect(!render(trace.diagnostics(), {}).empty(), "a refusal that says nothing");
    return 0;
  }
  try {
    for (const SegmentAddresses addresses :
         {SegmentAddresses::recorded, SegmentAddresses::predicted}) {
      const ReplayResult result = replay(trace.value(), addresses);
      expect(result.difference || result.markers.size() == trace.value().markers.size(),
             "a replay that ends before its trace");
    }
  } catch (const OverflowError&) {  // a device larger than the address space of a prediction
  }
  return 0;
}
