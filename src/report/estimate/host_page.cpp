// The host's memory: what is offloaded there, and what a data loader holds.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/estimate/estimate_sections.hpp"

namespace memest {
namespace {

Table table_of(const HostMemory& memory) {
  Table table{{{"term"},
               {"GiB", Align::right},
               {"bytes", Align::right},
               {"page-locked"},
               {.title = "formula", .fold = Fold::cut}},
              {}};
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

/// "Does not fit the host: 1.86 TiB of the 62.00 GiB of a node, 1.80 TiB too much."
std::string held_to_node(const HostNeed& need) {
  const Bytes taken = need.of_node();
  const Bytes room = need.capacity.bytes;
  const std::string of = fmt::format("{} of the {} of a node", sized_text(taken), sized_text(room));
  switch (need.verdict()) {
    case Verdict::fits:
      return fmt::format("Fits the host: {}.", of);
    case Verdict::does_not_fit:
      return fmt::format("Does not fit the host: {}, {} too much.", of, sized_text(taken - room));
    case Verdict::too_close_to_call:
      return fmt::format("Too close to call: {}, of which the machine keeps a part.", of);
  }
  unreachable("a verdict beyond the enum");
}

std::string node_text(const HostNeed& need) {
  std::string text =
      held_to_node(need) + fmt::format(" That is {} rank{}, with {} for each process.", need.ranks,
                                       need.ranks == 1 ? "" : "s", sized_text(kHostProcess));
  if (need.shared > Bytes()) text += fmt::format(" They share {}.", sized_text(need.shared));
  if (need.capacity.source == kWrittenHost) return text;
  return text + fmt::format(" What a node has is {} ({}); hardware.host_memory says another.",
                            name_of(need.capacity.provenance), need.capacity.source);
}

}  // namespace

void add_host_memory(Page& page, const Job& job, const MemoryAnswer& answer) {
  const HostMemory& memory = *answer.host;
  page.parts.emplace_back(Heading{"Host memory of one GPU"});
  page.parts.emplace_back(table_of(memory));
  page.parts.emplace_back(Paragraph{
      fmt::format("host memory {} a GPU, {} of it page-locked in powers of two. Ordinary memory is "
                  "unverified: it is read from the source.",
                  sized_text(memory.taken()), sized_text(memory.pinned())),
      Tone::plain});
  page.parts.emplace_back(
      Paragraph{node_text(*answer.host_need), tone_of(answer.host_need->verdict())});
  if (memory.on_nvme() == Bytes()) return;
  const std::int64_t gpus = std::min(job.hardware.count, job.hardware.gpus_per_node);
  page.parts.emplace_back(Paragraph{
      fmt::format("NVMe {} a GPU, {} for the {} of a node: unverified.",
                  sized_text(memory.on_nvme()), sized_text(memory.on_nvme() * gpus), gpus),
      Tone::plain});
}

}  // namespace memest
