#include "memest/report/estimate_report.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/estimate/estimate_charts.hpp"
#include "report/estimate/estimate_json.hpp"
#include "report/estimate/estimate_sections.hpp"
#include "report/pages/title.hpp"

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

/// The sections of a page in their order. Neighbours that are missing for the same reason share
/// one.
class Sections {
 public:
  explicit Sections(Page& page) : page_(page) {}
  ~Sections() { flush(); }
  Sections(const Sections&) = delete;
  Sections& operator=(const Sections&) = delete;

  template <class T, class Add>
  void add(const char* name, const std::variant<T, Unavailable>& value, const Add& add_value) {
    const auto* missing = std::get_if<Unavailable>(&value);
    if (missing == nullptr) {
      flush();
      add_value(std::get<T>(value));
      return;
    }
    if (!names_.empty() && missing->sentence != sentence_) flush();
    names_ += (names_.empty() ? "" : ", ") + std::string(name);
    sentence_ = missing->sentence;
  }

 private:
  void flush() {
    if (!names_.empty()) add_unavailable(page_, names_, {sentence_});
    names_.clear();
  }

  Page& page_;
  std::string names_;
  std::string sentence_;
};

void add_sections(Page& page, const Job& job, const JobEstimate& estimate) {
  Sections sections(page);
  sections.add("Memory", estimate.memory, [&](const MemoryAnswer& answer) {
    page.parts.emplace_back(ledger_chart(answer));
    add_memory(page, job, answer);
    if (answer.host) add_host_memory(page, job, answer);
    add_ranks(page, answer, estimate.other_ranks);
  });
  sections.add("FLOPs", estimate.flops,
               [&](const FlopsEstimate& flops) { add_flops(page, job, flops); });
  if (estimate.inference_time) {
    add_time(page, *estimate.inference_time);
  } else {
    sections.add("Time", estimate.time, [&](const TimeEstimate& time) {
      page.parts.emplace_back(step_chart(time));
      add_time(page, time);
    });
  }
  sections.add("Money", estimate.cost,
               [&](const CostEstimate& cost) { add_cost(page, job, cost); });
}

std::string verdict_words(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "Fits";
    case Verdict::does_not_fit:
      return "Does not fit";
    case Verdict::too_close_to_call:
      return "Too close to call";
  }
  unreachable("a verdict beyond the enum");
}

std::string verdict_line(const MemoryAnswer& answer) {
  const BytesInterval taken = answer.of_capacity();
  const std::int64_t data_rank = answer.ranks.data.worst;
  const std::string peak =
      fmt::format("peak {} GiB a GPU ({} to {}) of {} GiB{}", gib_text(taken.expected),
                  gib_text(taken.low), gib_text(taken.high), gib_text(answer.capacity.bytes),
                  data_rank == 0 ? "" : ", on data rank " + grouped(data_rank));
  return fmt::format("{}: {}", verdict_words(answer.verdict), peak);
}

/// The first questions: does it fit, how long is a step, what does it cost.
std::vector<Paragraph> summary_of(const JobEstimate& estimate) {
  std::vector<Paragraph> summary;
  if (const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory)) {
    summary.push_back({verdict_line(*memory) + ".", tone_of(memory->verdict)});
  }
  std::string pace;
  if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) {
    pace = fmt::format("A step takes {} ({} to {}), MFU {}", seconds_text(time->step),
                       seconds_text(time->low), seconds_text(time->high), percent_text(time->mfu));
  }
  if (estimate.inference_time) {
    const InferenceTime& time = *estimate.inference_time;
    pace = fmt::format("A call takes {} ({} to {})", seconds_text(time.whole),
                       seconds_text(time.low), seconds_text(time.high));
  }
  if (const auto* cost = std::get_if<CostEstimate>(&estimate.cost)) {
    pace += fmt::format("; {} per billion tokens", dollars_text(cost->per_billion_tokens));
  }
  if (!pace.empty()) summary.push_back({pace + ".", Tone::strong});
  return summary;
}

Page page_of(const Job& job, const JobEstimate& estimate, const Question& question) {
  Page page;
  if (const auto* missing = std::get_if<Unavailable>(&estimate.memory)) {
    page.parts.emplace_back(not_known(*missing));
  }
  page.parts.emplace_back(Heading{title_of(job, estimate.parameters.total)});
  page.parts.emplace_back(Paragraph{setting_of(job), Tone::plain});
  for (Paragraph& line : summary_of(estimate)) page.parts.emplace_back(std::move(line));
  page.parts.emplace_back(Paragraph{parameters_text(estimate.parameters), Tone::plain});
  add_sections(page, job, estimate);
  for (const std::string& assumption : estimate.assumptions) {
    page.parts.emplace_back(Paragraph{"Assumed: " + assumption, Tone::uncertain});
  }
  page.parts.emplace_back(Paragraph{provenance_text(job), Tone::faint});
  if (!question.fitting.empty()) {
    page.parts.emplace_back(
        Paragraph{fmt::format("No GPU is named, and one {} is assumed. This trains:\n{}",
                              job.hardware.gpu.slug, question.fitting),
                  Tone::plain});
  }
  if (std::holds_alternative<MemoryAnswer>(estimate.memory)) {
    page.parts.emplace_back(Paragraph{
        fmt::format("Why these numbers:\nmemest explain {}\nWhat else would do:\nmemest plan {}",
                    question.spec, question.spec),
        Tone::plain});
  }
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
  total("allocated", answer.allocated());
  if (const auto reserved = answer.reserved()) total("reserved", *reserved);
  total("device", answer.device());
  total("device low", answer.low());
  total("device high", answer.high());
  total("capacity", answer.capacity.bytes);
  for (const HostTerm& term : answer.host ? answer.host->terms : std::vector<HostTerm>{}) {
    records.add_explained({"host memory", term.name, to_string(term.taken().value()), "B",
                           term.formula, term.source});
  }
}

void add_records(Records& records, const FlopsEstimate& flops) {
  const auto count = [&](const char* name, Flops value) {
    records.add("flops", name, to_string(value.value()), "FLOP");
  };
  count("forward", flops.forward);
  count("backward", flops.backward);
  count("executed", flops.executed());
  count("computed", flops.computed);
  count("required", flops.required);
  count("model", flops.model);
  count("palm", flops.palm);
  count("megatron", flops.megatron);
}

void add_records(Records& records, const InferenceTime& time) {
  records.add("time", "call", exact_text(time.whole.value()), "s");
  records.add("time", "call low", exact_text(time.low.value()), "s");
  records.add("time", "call high", exact_text(time.high.value()), "s");
  records.add("time", "prefill", exact_text(time.prefill.expected.value()), "s");
  if (time.first_token) {
    records.add("time", "first token", exact_text(time.first_token->expected.value()), "s");
    records.add("time", "last token", exact_text(time.last_token->expected.value()), "s");
  }
}

Table records_of(const JobEstimate& estimate) {
  Records records;
  records.add("parameters", "total", std::to_string(estimate.parameters.total), "");
  records.add("parameters", "active", std::to_string(estimate.parameters.active), "");
  if (const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory)) {
    add_records(records, *memory);
  }
  records.add("memory total", "verdict", std::string(verdict_text(estimate)), "");
  if (const auto* flops = std::get_if<FlopsEstimate>(&estimate.flops)) add_records(records, *flops);
  if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) {
    records.add("time", "step", exact_text(time->step.value()), "s");
    records.add("time", "step low", exact_text(time->low.value()), "s");
    records.add("time", "step high", exact_text(time->high.value()), "s");
    records.add("time", "mfu", exact_text(time->mfu), "");
    records.add("time", "hfu", exact_text(time->hfu), "");
  }
  if (estimate.inference_time) add_records(records, *estimate.inference_time);
  if (const auto* cost = std::get_if<CostEstimate>(&estimate.cost)) {
    records.add("cost", "per step", exact_text(cost->per_step.value()), "USD");
    records.add("cost", "per billion tokens", exact_text(cost->per_billion_tokens.value()), "USD");
  }
  return records.take();
}

}  // namespace

std::vector<Headline> headlines_of(const JobEstimate& estimate) {
  std::vector<Headline> lines;
  if (const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory)) {
    const BytesInterval taken = memory->of_capacity();
    lines.push_back({"Verdict", verdict_words(memory->overall()), tone_of(memory->overall())});
    lines.push_back({"Peak of a GPU", fmt::format("{} of {}", sized_text(taken.expected),
                                                  sized_text(memory->capacity.bytes))});
  } else {
    lines.push_back({"Verdict", "Not known", Tone::bad});
  }
  if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) {
    lines.push_back({"A step", seconds_text(time->step)});
  }
  if (estimate.inference_time) {
    lines.push_back({"A call", seconds_text(estimate.inference_time->whole)});
  }
  if (const auto* cost = std::get_if<CostEstimate>(&estimate.cost)) {
    lines.push_back({"A billion tokens", dollars_text(cost->per_billion_tokens)});
    lines.push_back({"All GPUs", dollars_text(cost->per_hour) + " an hour"});
  } else {
    lines.push_back({"Cost", "no price is known", Tone::faint});
  }
  return lines;
}

Report report_estimate(const Job& job, const JobEstimate& estimate, const Question& question) {
  return {page_of(job, estimate, question), records_of(estimate),
          text_for(question, [&] { return json_of(job, estimate, question); }),
          headlines_of(estimate)};
}

}  // namespace memest
