// An estimate's memory: the ledger at the peak, the moments, the verdict, the simple view.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/parallel/sharing.hpp"
#include "memest/units/text.hpp"
#include "report/estimate/estimate_sections.hpp"
#include "report/pages/coverage.hpp"
#include "report/pages/modelled.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

constexpr std::size_t kShownMoments = 6;
constexpr std::string_view kTermIndent = "  ";

constexpr std::array<TermGroup, 6> kGroups = {TermGroup::weights,   TermGroup::gradients,
                                              TermGroup::optimizer, TermGroup::activations,
                                              TermGroup::buffers,   TermGroup::overhead};

Row total_row(std::string name, Bytes bytes, std::string remark) {
  return {{std::move(name), gib_text(bytes), grouped(bytes.value()), std::move(remark)},
          "",
          Tone::strong};
}

std::string formula_of(const LedgerTerm& term) {
  return term.rule.empty() ? term.formula.text() : term.rule;
}

void append_totals(const MemoryAnswer& answer, Table& table) {
  const auto interval =
      fmt::format("{} to {} GiB", gib_text(answer.low()), gib_text(answer.high()));
  if (answer.replayed() == nullptr) {
    table.rows.push_back(
        total_row("allocated", answer.estimate.allocated(), "by PyTorch's allocator, at the peak"));
  } else {
    table.rows.push_back(total_row("allocated", answer.allocated(), "replayed, at the peak"));
    table.rows.push_back(
        total_row("reserved", *answer.reserved(), "replayed, by PyTorch's allocator"));
  }
  table.rows.push_back(total_row("device", answer.device(), interval));
}

Table ledger_table(const MemoryAnswer& answer) {
  Table table{{{"term"},
               {"GiB", Align::right},
               {"bytes", Align::right},
               {.title = "formula", .fold = Fold::cut}},
              {}};
  for (const TermGroup group : kGroups) {
    Bytes sum;
    std::vector<Row> rows;
    for (const Term& term : answer.estimate.terms) {
      const LedgerTerm& meaning = answer.ledger.terms[term.index];
      if (meaning.group != group) continue;
      sum += term.value;
      rows.push_back({{std::string(kTermIndent) + meaning.name, gib_text(term.value),
                       grouped(term.value.value()), formula_of(meaning)},
                      "",
                      Tone::plain});
    }
    if (rows.empty()) continue;
    if (rows.size() == 1) {
      rows[0].cells[0].erase(0, kTermIndent.size());
    } else {
      table.rows.push_back(total_row(std::string(name_of(group)), sum, ""));
    }
    table.rows.insert(table.rows.end(), rows.begin(), rows.end());
  }
  append_totals(answer, table);
  return table;
}

/// The highest moments, the peak marked.
Table moment_table(const MemoryAnswer& answer) {
  Table table{{{"moment"}, {"allocated, GiB", Align::right}}, {}};
  for (const HighMoment& moment : answer.moments) {
    if (table.rows.size() == kShownMoments) break;
    const bool is_peak = table.rows.empty();
    table.rows.push_back({{moment.name, gib_text(moment.allocated)},
                          is_peak ? "▸" : "",
                          is_peak ? Tone::strong : Tone::plain});
  }
  return table;
}

std::string capacity_text(const Job& job, const Capacity& capacity) {
  if (capacity.allocator_limit) {
    return fmt::format("the {} that hardware.memory allows", sized_text(capacity.bytes));
  }
  return fmt::format("the {} of {}", sized_text(capacity.bytes), job.hardware.gpu.slug);
}

std::int64_t retries_of(const MemoryAnswer& answer) {
  const ReplayedSteps* steps = answer.replayed();
  return steps == nullptr ? 0 : steps->step.replay.statistics.retries;
}

/// ", 500 MiB CUDA context, 688 MiB NCCL buffers": what stands on the device beside the allocator.
std::string outside_text(const MemoryAnswer& answer) {
  std::string text;
  if (answer.capacity.allocator_limit) return text;  // which holds nothing else
  const std::vector<std::uint16_t>& outside = answer.ledger.outside_allocator;
  for (const Term& term : answer.estimate.terms) {
    if (std::find(outside.begin(), outside.end(), term.index) == outside.end()) continue;
    text += fmt::format(", {} {}", sized_text(term.value), answer.ledger.terms[term.index].name);
  }
  return text;
}

/// Whether all of the model is on the GPU before FSDP shards it.
bool puts_on_device(const Job& job) {
  const Sharding sharding = sharding_of(job);
  const GatheredUnits* units = units_of(sharding);
  return units != nullptr && units->init == ShardInit::device;
}

/// ", while FSDP1 shards the model": of a moment before the first step.
std::string sharding_text(const Job& job, const StepMemory& memory, std::uint32_t event) {
  const Label& label = memory.timeline.storages[memory.timeline.events[event].storage].label;
  const Sharing sharing = sharing_of(job.parallelism);
  if (!sharing.in_units() || label.step > 0 || label.phase != Phase::model) return "";
  const bool comes =
      puts_on_device(job) && sharing.in_flat_units() && label.origin == Origin::parameter;
  return fmt::format(", {} FSDP{} shards the model", comes ? "before" : "while",
                     sharing.version_of_units());
}

std::string too_much_text(const MemoryAnswer& answer) {
  return sized_text(answer.of_capacity().expected - answer.capacity.bytes) + " too much";
}

/// Where the replay ends, what fragmentation keeps, and whether another allocator setting helps.
std::string out_of_memory_text(const Job& job, const MemoryAnswer& answer,
                               const ReplayedSteps& steps) {
  const OutOfMemory& end = *steps.step.replay.out_of_memory;
  const Bytes outside = answer.capacity.allocator_limit ? Bytes() : answer.estimate.outside;
  const std::string sharding = sharding_text(job, steps.step, end.event);
  std::string text = fmt::format(
      "Does not fit: runs out of memory in {}{}: {} asked for, {} left of {}: {} reserved ({} "
      "allocated, {} free in pieces of at most {}){}. Without a limit it allocates {} and reserves "
      "{}: {}.",
      moment_of_event(steps.step, end.event), sharding, sized_text(end.requested),
      sized_text(answer.capacity.bytes - outside - end.reserved),
      capacity_text(job, answer.capacity), sized_text(end.reserved), sized_text(end.allocated),
      sized_text(end.free_in_segments), sized_text(end.largest_free), outside_text(answer),
      sized_text(answer.allocated()), sized_text(*answer.reserved()), too_much_text(answer));
  if (steps.expandable && !steps.expandable->out_of_memory) {
    text +=
        fmt::format(" It fits with `allocator: {{expandable_segments: true}}`, which reserves {}.",
                    sized_text(steps.expandable->statistics.reserved.peak));
  }
  if (!sharding.empty() && puts_on_device(job)) {
    text += " With `parallelism.fsdp.init: host` a unit at a time is whole on the GPU.";
  }
  return text;
}

Paragraph verdict_of(const Job& job, const MemoryAnswer& answer) {
  const ReplayedSteps* steps = answer.replayed();
  const bool ends = steps != nullptr && steps->step.replay.out_of_memory.has_value();
  if (ends && answer.verdict == Verdict::does_not_fit) {
    return {out_of_memory_text(job, answer, *steps), Tone::bad};
  }
  const auto [expected, low, high] = answer.of_capacity();
  const Bytes room = answer.capacity.bytes;
  const std::string capacity = capacity_text(job, answer.capacity);
  switch (answer.verdict) {
    case Verdict::fits:
      if (high > room) {  // only by giving cached memory back
        return {fmt::format("Fits: {} of {}, after {} retries of the allocator.",
                            sized_text(expected), capacity, retries_of(answer)),
                Tone::good};
      }
      return {fmt::format("Fits: at most {} of {}, {} to spare.", sized_text(high), capacity,
                          sized_text(room - high)),
              Tone::good};
    case Verdict::does_not_fit:
      return {fmt::format("Does not fit: {} of {}, {}; at least {}.", sized_text(expected),
                          capacity, too_much_text(answer), sized_text(low)),
              Tone::bad};
    case Verdict::too_close_to_call:
      return {
          fmt::format(
              "Too close to call: {} to {} of {}{}.", sized_text(low), sized_text(high), capacity,
              ends ? "; as expected it runs out in " +
                         moment_of_event(steps->step, steps->step.replay.out_of_memory->event)
                   : ""),
          Tone::uncertain};
  }
  unreachable("a verdict beyond the enum");
}

/// Returns the interval under other releases, which the verdict does not cover.
Paragraph any_release_text(const Job& job, const MemoryAnswer& answer,
                           const BytesInterval& interval) {
  const bool may_end = answer.verdict == Verdict::fits && interval.high > answer.capacity.bytes;
  return {fmt::format("Other releases than {}: {} to {} of the device{}; {}.",
                      modelled_programs(job, " and "), sized_text(interval.low),
                      sized_text(interval.high), may_end ? ", so they may run out of memory" : "",
                      coverage_text(answer.published.device, "peaks")),
          may_end ? Tone::uncertain : Tone::faint};
}

/// "5", "5, more are not followed".
std::string largest_text(const LargestValue& largest) {
  switch (largest.bound) {
    case LargestValue::Bound::memory:
      return std::to_string(largest.value);
    case LargestValue::Bound::key:
      return std::to_string(largest.value) + " (no more may be)";
    case LargestValue::Bound::events:
      return std::to_string(largest.value) + " (more are not followed)";
  }
  unreachable("every bound has its words");
}

/// Empty where neither the closed form nor the search says anything.
std::string simple_text(const MemoryAnswer& answer) {
  std::string text;
  const bool generates = answer.largest_tokens || answer.largest_beams;
  if (answer.closed_form) {
    text =
        fmt::format("{} fixed + {} a sequence{}", sized_text(answer.simple.fixed),
                    sized_text(answer.simple.per_sequence), generates ? "" : " of the micro-batch");
  }
  if (answer.largest_micro_batch) {
    const std::int64_t largest = *answer.largest_micro_batch;
    const std::string_view key = generates ? "batch" : "micro-batch";
    text += text.empty() ? "" : "; ";
    text += largest < 1 ? fmt::format("no {} fits", key)
                        : fmt::format("the largest {} that fits is {}", key, largest);
  }
  if (answer.largest_beams) text += ", the most beams " + largest_text(*answer.largest_beams);
  if (answer.largest_tokens) text += ", the most tokens " + largest_text(*answer.largest_tokens);
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

/// Empty where all data ranks are alike.
std::string data_ranks_text(const DataRanks& data) {
  if (data.followed == 1) return {};
  return fmt::format(
      "Data ranks step other pieces of the parameters, which take other blocks: of {} ranks {} "
      "were "
      "replayed, and these bytes are data rank {}'s, which takes most.",
      grouped(data.count), data.followed, data.worst);
}

}  // namespace

Tone tone_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return Tone::good;
    case Verdict::does_not_fit:
      return Tone::bad;
    case Verdict::too_close_to_call:
      return Tone::uncertain;
  }
  unreachable("a verdict beyond the enum");
}

std::string whose_memory(const RankClass& ranks) {
  if (ranks.data.worst == 0) return ranks.name;
  return (ranks.name.empty() ? "" : ranks.name + ", ") + "data rank " + grouped(ranks.data.worst);
}

void add_ranks(Page& page, const MemoryAnswer& worst, const std::vector<MemoryAnswer>& others) {
  if (others.empty()) return;
  page.parts.emplace_back(Heading{"Ranks of the pipeline"});
  Table table;
  table.columns = {{"ranks"},
                   {"GPUs", Align::right},
                   {"allocated, GiB", Align::right},
                   {"reserved, GiB", Align::right},
                   {"device, GiB", Align::right}};
  const auto add = [&table](const MemoryAnswer& answer) {
    table.rows.push_back(
        {{whose_memory(answer.ranks), std::to_string(answer.ranks.count),
          gib_text(answer.allocated()), answer.reserved() ? gib_text(*answer.reserved()) : "",
          gib_text(answer.device())},
         "",
         Tone::plain});
  };
  add(worst);
  for (const MemoryAnswer& answer : others) add(answer);
  page.parts.emplace_back(std::move(table));
}

void add_memory(Page& page, const Job& job, const MemoryAnswer& answer) {
  const ReplayedSteps* steps = answer.replayed();
  std::string whose = whose_memory(answer.ranks);
  if (!whose.empty()) whose = (answer.ranks.name.empty() ? " of " : " of the ") + whose;
  page.parts.emplace_back(Heading{fmt::format(
      "Memory of one GPU{} ({})", whose,
      steps != nullptr ? "replayed: " + modelled_programs(job) : margin_text(answer.estimate))});
  page.parts.emplace_back(ledger_table(answer));
  page.parts.emplace_back(verdict_of(job, answer));
  if (const auto interval = answer.device_of_any_release()) {
    page.parts.emplace_back(any_release_text(job, answer, *interval));
  }
  if (steps != nullptr) {
    const std::uint32_t peak = steps->unpressed().peak.event;
    page.parts.emplace_back(Paragraph{fmt::format("Peak: {}{}.", moment_of_event(steps->step, peak),
                                                  sharding_text(job, steps->step, peak)),
                                      Tone::plain});
  }
  if (std::string data = data_ranks_text(answer.ranks.data); !data.empty()) {
    page.parts.emplace_back(Paragraph{std::move(data), Tone::plain});
  }
  if (std::string simple = simple_text(answer); !simple.empty()) {
    page.parts.emplace_back(Paragraph{std::move(simple), Tone::plain});
  }
  page.parts.emplace_back(Heading{"Highest moments of the step"});
  page.parts.emplace_back(moment_table(answer));
}

}  // namespace memest
