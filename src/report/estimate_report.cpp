#include "memest/report/estimate_report.hpp"

#include <fmt/format.h>

#include <string>

#include "estimate_json.hpp"
#include "estimate_sections.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "title.hpp"

namespace memest {
namespace {

std::string parameters_text(const ParameterCounts& counts) {
  std::string text = fmt::format("{} parameters", grouped(counts.total));
  if (counts.active != counts.total)
    text += fmt::format(", {} active a token", grouped(counts.active));
  if (counts.trainable != counts.total)
    text += fmt::format(", {} trained", grouped(counts.trainable));
  return text + fmt::format(", in {} tensors; buffers {}.", grouped(counts.tensors),
                            sized_text(counts.buffers));
}

/// Adds a section, or the sentence in its place.
template <class T, class Add>
void add(Page& page, const char* heading, const std::variant<T, Unavailable>& value,
         const Add& add_value) {
  if (const auto* missing = std::get_if<Unavailable>(&value)) {
    add_unavailable(page, heading, *missing);
  } else {
    add_value(std::get<T>(value));
  }
}

Page page_of(const Job& job, const JobEstimate& estimate, const Question& question) {
  Page page;
  page.parts.emplace_back(Heading{title_of(job, estimate.parameters.total)});
  page.parts.emplace_back(
      Paragraph{setting_of(job) + "\n" + parameters_text(estimate.parameters), Tone::plain});
  add(page, "Memory", estimate.memory,
      [&](const MemoryAnswer& answer) { add_memory(page, job, answer); });
  add(page, "FLOPs", estimate.flops, [&](const FlopsEstimate& flops) { add_flops(page, flops); });
  add(page, "Time", estimate.time, [&](const TimeEstimate& time) { add_time(page, time); });
  add(page, "Money", estimate.cost, [&](const CostEstimate& cost) { add_cost(page, cost); });
  for (const std::string& assumption : estimate.assumptions) {
    page.parts.emplace_back(Paragraph{"Assumed: " + assumption, Tone::uncertain});
  }
  page.parts.emplace_back(Paragraph{provenance_text(job), Tone::faint});
  page.parts.emplace_back(Paragraph{
      fmt::format("Why these numbers: memest explain {}\nWhat else would do: memest plan {}",
                  question.spec, question.spec),
      Tone::plain});
  return page;
}

/// One row a number: raw values, the unit in a column of its own.
class Records {
 public:
  void add(std::string section, std::string name, std::string value, std::string unit) {
    add_explained({std::move(section), std::move(name), std::move(value), std::move(unit), "", ""});
  }
  void add_explained(std::vector<std::string> cells) {
    table_.rows.push_back({std::move(cells), "", {}});
  }
  Table take() { return std::move(table_); }

 private:
  Table table_{{{"section"}, {"name"}, {"value"}, {"unit"}, {"formula"}, {"source"}}, {}};
};

void add_records(Records& records, const MemoryAnswer& answer) {
  for (const Term& term : answer.estimate.terms) {
    const LedgerTerm& meaning = answer.ledger.terms[term.index];
    records.add_explained({"memory", meaning.name, to_string(term.value.value()), "B",
                           meaning.formula.text(), meaning.source});
  }
  const auto total = [&](const char* name, Bytes bytes) {
    records.add("memory total", name, to_string(bytes.value()), "B");
  };
  total("allocated", answer.estimate.allocated());
  total("device", answer.estimate.device());
  total("device low", answer.estimate.low());
  total("device high", answer.estimate.high());
  total("capacity", answer.capacity.bytes);
  records.add("memory total", "verdict", std::string(name_of(answer.verdict)), "");
}

void add_records(Records& records, const FlopsEstimate& flops) {
  const auto count = [&](const char* name, Flops value) {
    records.add("flops", name, to_string(value.value()), "FLOP");
  };
  count("forward", flops.forward);
  count("backward", flops.backward);
  count("executed", flops.executed());
  count("model", flops.model);
  count("palm", flops.palm);
  count("megatron", flops.megatron);
}

Table records_of(const JobEstimate& estimate) {
  Records records;
  records.add("parameters", "total", std::to_string(estimate.parameters.total), "");
  records.add("parameters", "active", std::to_string(estimate.parameters.active), "");
  if (const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory)) {
    add_records(records, *memory);
  }
  if (const auto* flops = std::get_if<FlopsEstimate>(&estimate.flops)) add_records(records, *flops);
  if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) {
    records.add("time", "step", exact_text(time->step.value()), "s");
    records.add("time", "step low", exact_text(time->low.value()), "s");
    records.add("time", "step high", exact_text(time->high.value()), "s");
    records.add("time", "mfu", exact_text(time->mfu), "");
    records.add("time", "hfu", exact_text(time->hfu), "");
  }
  if (const auto* cost = std::get_if<CostEstimate>(&estimate.cost)) {
    records.add("cost", "per step", exact_text(cost->per_step.value()), "USD");
    records.add("cost", "per billion tokens", exact_text(cost->per_billion_tokens.value()), "USD");
  }
  return records.take();
}

}  // namespace

Report report_estimate(const Job& job, const JobEstimate& estimate, const Question& question) {
  return {page_of(job, estimate, question), records_of(estimate),
          text_of(json_of(job, estimate, question))};
}

}  // namespace memest
