// Any bytes as a recorded run: a snapshot, a trace or a log whose peaks can be told, diagnostics
// that can be shown, or no run, and nothing else.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "memest/memory/recorded_peaks.hpp"
#include "memest/memory/timeline_difference.hpp"
#include "memest/reader/read_run.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/units/int128.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace memest;
  const auto source =
      std::make_shared<const SourceText>(SourceText{"fuzz.run", std::string(data, data + size)});
  const auto run = find_run(source);
  if (!run.ok()) {
    expect(!render(run.diagnostics(), {}).empty(), "a refusal that says nothing");
    return 0;
  }
  if (!run.value()) return 0;
  if (const auto* log = std::get_if<UsageLog>(&*run.value())) {
    expect(!log->gpus.empty(), "a log of no GPU");
    return 0;
  }
  const auto& trace = std::get<AllocatorTrace>(*run.value());
  try {
    expect(peaks_of(trace).allocated >= Bytes(), "a peak below nothing");
    const AllocationMatch match = match_allocations(Timeline(), trace);
    expect(match.matched == 0, "a match with nothing");
  } catch (const OverflowError&) {  // sizes that add up to more than there are bytes
  }
  return 0;
}
