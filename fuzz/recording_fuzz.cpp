// Any bytes as a recording of `memest record`, of one run and of many sizes: what a step of it
// takes and leaves, or diagnostics that can be shown, and nothing else.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "memest/memory/recorded/kept_for_backward.hpp"
#include "memest/memory/recorded_use.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/family_text.hpp"
#include "memest/reader/read_trace.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/time/recorded_time.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

Hardware an_h100() {
  Hardware hardware;
  hardware.gpu = find_gpu("h100-sxm-80gb").value();
  return hardware;
}

void use(const Recording& recording) {
  static const Hardware hardware = an_h100();
  try {
    const KeptForBackward kept = kept_for_backward(recording.trace);
    Bytes sum;
    for (const ModuleUse& module : kept.modules) sum += module.bytes;
    expect(sum == kept.bytes, "modules that do not add up to what is kept");
    peak_moment(recording.trace);
    growing_places(recording.trace);
    const RecordedStepTime time = time_of(recording.work, hardware, {});
    const auto* known = std::get_if<RecordedTime>(&time);
    if (known == nullptr) return;
    std::int64_t calls = 0;
    for (const RecordedWorkTime& phase : known->phases) calls += phase.calls;
    expect(calls == known->launches, "phases that do not add up to the step");
  } catch (const OverflowError&) {  // sizes beyond what any device has
  }
}

/// The work of a family's step where it was held out.
void use(const RecordedFamily& family) {
  static const Hardware hardware = an_h100();
  try {
    time_of(work_at(family, family.held_out), hardware, {});
  } catch (const OverflowError&) {
  }
}

template <class Read>
void tell(const Checked<Read>& read) {
  expect(read.ok() || !render(read.diagnostics(), {}).empty(), "a refusal that says nothing");
}

}  // namespace
}  // namespace memest

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace memest;
  const auto source =
      std::make_shared<const SourceText>(SourceText{"fuzz.memrec", std::string(data, data + size)});
  const Checked<Recording> recording = read_recording(source);
  tell(recording);
  if (recording.ok()) use(recording.value());
  const Checked<RecordedFamily> family = read_family(source);
  tell(family);
  if (!family.ok()) return 0;
  use(family.value());
  const std::string written = write_family(family.value());
  const Checked<RecordedFamily> again =
      read_family(std::make_shared<const SourceText>(SourceText{"again.memrec", written}));
  expect(again.ok() && write_family(again.value()) == written,
         "a family that is written otherwise");
  return 0;
}
