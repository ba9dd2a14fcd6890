// Any bytes as a file of records, and as a file of lines: an answer or diagnostics that can be
// shown.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "memest/reader/accuracy.hpp"
#include "memest/reader/record.hpp"
#include "memest/report/diagnostics.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace memest;
  const auto source =
      std::make_shared<const SourceText>(SourceText{"fuzz", std::string(data, data + size)});
  const auto records = read_records(source);
  expect(records.ok() || !render(records.diagnostics(), {}).empty(), "a refusal that says nothing");
  const auto lines = read_accuracy_lines(source);
  expect(lines.ok() || !render(lines.diagnostics(), {}).empty(), "a refusal that says nothing");
  return 0;
}
