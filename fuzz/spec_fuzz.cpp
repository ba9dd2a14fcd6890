// Any bytes as a spec file: a job or diagnostics that can be shown, and nothing else.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "memest/reader/read_job.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/units/int128.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace memest;
  const auto source =
      std::make_shared<const SourceText>(SourceText{"fuzz.yaml", std::string(data, data + size)});
  try {
    const Checked<Job> job = read_job(source);
    const std::string text = render(job.diagnostics(), {});
    expect(job.ok() || !text.empty(), "a refusal that says nothing");
  } catch (
      const OverflowError&) {  // sizes whose product leaves 64 bits: the tool answers in a sentence
  }
  return 0;
}
