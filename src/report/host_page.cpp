// The host's memory, where weights, gradients or the optimizer are offloaded.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "estimate_sections.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

Table table_of(const HostMemory& memory) {
  Table table{
      {{"term"}, {"GiB", Align::right}, {"bytes", Align::right}, {"page-locked"}, {"formula"}}, {}};
  for (const HostTerm& term : memory.terms) {
    table.rows.push_back({{term.name, gib_text(term.taken()), grouped(term.bytes.value()),
                           term.on_nvme             ? "on NVMe"
                           : term.pinned == Bytes() ? ""
                                                    : gib_text(term.pinned) + " GiB",
                           term.formula},
                          "",
                          Tone::plain});
  }
  return table;
}

}  // namespace

void add_host_memory(Page& page, const Job& job, const HostMemory& memory) {
  page.parts.emplace_back(Heading{"Host memory of one GPU"});
  page.parts.emplace_back(table_of(memory));
  const std::int64_t gpus = std::min(job.hardware.count, job.hardware.gpus_per_node);
  page.parts.emplace_back(Paragraph{
      fmt::format("host memory {} a GPU, {} of it page-locked in powers of two; {} for the {} GPUs "
                  "of a node. Ordinary memory is unverified: it is read from the source.",
                  sized_text(memory.taken()), sized_text(memory.pinned()),
                  sized_text(memory.taken() * gpus), gpus),
      Tone::plain});
  if (memory.on_nvme() == Bytes()) return;
  page.parts.emplace_back(Paragraph{
      fmt::format("NVMe {} a GPU, {} for the {} of a node: unverified.",
                  sized_text(memory.on_nvme()), sized_text(memory.on_nvme() * gpus), gpus),
      Tone::plain});
}

}  // namespace memest
