#include "memest/report/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "memest/graph/parameters.hpp"
#include "memest/report/numbers.hpp"
#include "plan_json.hpp"
#include "plan_layout.hpp"
#include "title.hpp"

namespace memest {
namespace {

constexpr const char* kLayoutLegend =
    "Layouts: t tensor, c context, p pipeline, v stages a rank, x expert, D data-parallel ranks, Z "
    "what they shard.";

constexpr const char* kShardsLegend =
    "Shards: f FSDP2, r its replicas, +o the optimizer on the host, +w the weights.";

/// "17.2", "17.2 to 21.3".
std::string gib_range(std::pair<Bytes, Bytes> range) {
  const std::string least = gib_text(range.first);
  const std::string most = gib_text(range.second);
  return least == most ? most : least + " to " + most;
}

/// Of the rows that people read, with what they take of their hosts; empty where none needs it.
std::string shards_legend(const PlanAnswer& answer) {
  bool shows_letters = false;
  std::vector<Bytes> taken;
  std::vector<Bytes> offered;
  for (std::size_t i = 0; i < std::min(answer.best.size(), kShownPlans); ++i) {
    const PlanVerdict& verdict = answer.best[i];
    shows_letters = shows_letters || verdict.candidate.parallelism.fsdp || verdict.host;
    if (!verdict.host) continue;
    taken.push_back(verdict.host->of_rank);
    offered.push_back(Bytes(verdict.host->capacity.bytes.value() / verdict.host->ranks));
  }
  if (!shows_letters) return {};
  std::string legend = kShardsLegend;
  if (taken.empty()) return legend;
  const auto range = [](const std::vector<Bytes>& all) {
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return gib_range({*least, *most});
  };
  legend += fmt::format(
      " They take {} GiB of the host's memory a GPU, beside the process, of {} that such nodes "
      "have.",
      range(taken), range(offered));
  return legend;
}

/// Not where no layout divides the model, or no batch.
bool has_candidate(const PlanVerdict& verdict) { return verdict.device > Bytes(); }

double tokens_per_second(const PlanVerdict& verdict) {
  const auto* time = std::get_if<TimeEstimate>(&verdict.time);
  return time == nullptr
             ? 0
             : time->tokens_per_second_per_gpu * static_cast<double>(verdict.candidate.gpus);
}

std::vector<std::string> settings_of(const PlanCandidate& candidate, Splits splits) {
  return {fmt::format("{} × {}", candidate.gpus, candidate.gpu->slug),
          std::to_string(candidate.micro_batch), text_of(candidate.recompute),
          splits == Splits::layers ? layout_text(candidate.parallelism)
                                   : shards_text(candidate.parallelism)};
}

/// A cell of a value that may be missing.
template <class T, class Write>
std::string cell(const std::variant<T, Unavailable>& value, const Write& write) {
  const T* present = std::get_if<T>(&value);
  return present == nullptr ? "–" : write(*present);
}

Row best_row(const PlanVerdict& verdict, Splits splits, bool first) {
  std::vector<std::string> cells = settings_of(verdict.candidate, splits);
  const auto time = [&](const auto& write) { cells.push_back(cell(verdict.time, write)); };
  cells.push_back(gib_text(verdict.device));
  cells.push_back(gib_text(verdict.high));
  cells.push_back(gib_text(verdict.capacity));
  time([](const TimeEstimate& value) { return seconds_text(value.step); });
  time([&](const TimeEstimate& value) {
    return count_text(value.tokens_per_second_per_gpu *
                      static_cast<double>(verdict.candidate.gpus));
  });
  time([](const TimeEstimate& value) { return percent_text(value.mfu); });
  cells.push_back(cell(verdict.cost, [](const CostEstimate& value) {
    return significant_text(value.per_billion_tokens.value());
  }));
  if (verdict.verdict == Verdict::too_close_to_call)
    return {std::move(cells), "±", Tone::uncertain};
  return {std::move(cells), first ? "▸" : "", first ? Tone::good : Tone::plain};
}

std::string why_text(const PlanVerdict& verdict, Splits splits) {
  if (!has_candidate(verdict)) return verdict.reason;
  const PlanCandidate& candidate = verdict.candidate;
  const std::string layout = splits == Splits::layers
                                 ? layout_text(candidate.parallelism)
                                 : fmt::format("ZeRO {}", shards_text(candidate.parallelism));
  std::string why = fmt::format("micro-batch {}, recompute {}, {}: {}", candidate.micro_batch,
                                text_of(candidate.recompute), layout, verdict.reason);
  const std::string lever = lever_text(verdict.levers);
  if (!lever.empty()) why += (why.empty() ? "" : "; ") + lever;
  return why;
}

Row refused_row(const PlanVerdict& verdict, Splits splits) {
  return {
      {settings_of(verdict.candidate, splits).front(), why_text(verdict, splits)}, "✗", Tone::bad};
}

Table empty_table(Splits splits) {
  return {{{"GPUs"},
           {"micro", Align::right},
           {"recompute"},
           {splits == Splits::layers ? "layout" : "ZeRO"},
           {"peak", Align::right},
           {"at most", Align::right},
           {"of GiB", Align::right},
           {"step", Align::right},
           {"tokens/s", Align::right},
           {"MFU", Align::right},
           {"USD/B tok", Align::right}},
          {}};
}

Table table_of(const PlanAnswer& answer, Splits splits) {
  Table table = empty_table(splits);
  const std::size_t best = std::min(answer.best.size(), kShownPlans);
  for (std::size_t i = 0; i < best; ++i) {
    table.rows.push_back(best_row(answer.best[i], splits, i == 0));
  }
  for (std::size_t i = 0; i < std::min(answer.refused.size(), kShownRefusals); ++i) {
    table.rows.push_back(refused_row(answer.refused[i], splits));
  }
  return table;
}

/// Of many points those that stand evenly between the cheapest and the last.
Table front_table(const PlanAnswer& answer, Splits splits) {
  Table table = empty_table(splits);
  const std::size_t count = answer.front.size();
  const std::size_t shown = std::min(count, kShownPlans);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t index = shown == 1 ? 0 : i * (count - 1) / (shown - 1);
    table.rows.push_back(best_row(answer.front[index], splits, false));
  }
  return table;
}

std::string left_out_text(const PlanAnswer& answer) {
  const std::size_t best = answer.best.size() - std::min(answer.best.size(), kShownPlans);
  const std::size_t refused =
      answer.refused.size() - std::min(answer.refused.size(), kShownRefusals);
  if (best == 0 && refused == 0) return {};
  return fmt::format(
      "Not shown: {} more that the closed form does not refuse, {} more that it does; --format csv "
      "replays all. ",
      best, refused);
}

/// "micro-batch 2, recompute none, ZeRO 1; at most 174.8 of 177.3 GiB, 31.3 s a step".
std::string choice_text(const PlanVerdict& verdict, Splits splits) {
  const PlanCandidate& candidate = verdict.candidate;
  const std::string layout = splits == Splits::layers
                                 ? layout_text(candidate.parallelism)
                                 : fmt::format("ZeRO {}", shards_text(candidate.parallelism));
  std::string text = fmt::format("micro-batch {}, recompute {}, {}; at most {} of {} GiB",
                                 candidate.micro_batch, text_of(candidate.recompute), layout,
                                 gib_text(verdict.high), gib_text(verdict.capacity));
  if (const auto* time = std::get_if<TimeEstimate>(&verdict.time)) {
    text += fmt::format(", {} a step", seconds_text(time->step));
  }
  return text;
}

Paragraph conclusion_of(const PlanAnswer& answer, Splits splits) {
  if (answer.best.empty()) return {"Nothing fits.", Tone::bad};
  const PlanVerdict& first = answer.best.front();
  if (first.verdict != Verdict::fits) {
    return {"Nothing surely fits: the rows marked ± are too close to call.", Tone::uncertain};
  }
  const auto* cost = std::get_if<CostEstimate>(&first.cost);
  const std::string name = fmt::format("{} × {}", first.candidate.gpus, first.candidate.gpu->slug);
  const std::string choice = choice_text(first, splits);
  if (cost == nullptr) {
    return {fmt::format("No price is known; first: {}: {}.", name, choice), Tone::strong};
  }
  return {fmt::format("Cheapest: {}, {} per billion tokens: {}.", name,
                      dollars_text(cost->per_billion_tokens), choice),
          Tone::strong};
}

/// Of the rows that are shown.
std::string method_of(const PlanAnswer& answer) {
  std::size_t rows = 0;
  std::size_t replayed = 0;
  const auto count = [&](const std::vector<PlanVerdict>& verdicts, std::size_t most) {
    for (std::size_t i = 0; i < std::min(verdicts.size(), most); ++i) {
      if (!has_candidate(verdicts[i])) continue;
      ++rows;
      if (verdicts[i].replayed) ++replayed;
    }
  };
  count(answer.best, kShownPlans);
  count(answer.refused, kShownRefusals);
  if (replayed == 0) return "closed form, as jobs like these have no replay";
  if (replayed == rows) return "replayed";
  return fmt::format("replayed, but for {} of {} rows closed form, which have no replay",
                     rows - replayed, rows);
}

std::string provenance_of(const PlanAnswer& answer) {
  const PlanVerdict& first = answer.best.empty() ? answer.refused.front() : answer.best.front();
  std::string text = fmt::format("{} candidates.", answer.candidates);
  if (!has_candidate(first)) return text;
  const double device = first.device.as_double();
  text += fmt::format(
      " Memory: {}, −{} / +{}; what is within that of the capacity is too close to call.",
      method_of(answer), percent_text(1 - first.low.as_double() / device),
      percent_text(first.high.as_double() / device - 1));
  if (const auto* time = std::get_if<TimeEstimate>(&first.time)) {
    text += fmt::format(" Step times: {}, {} to {} times the value.", text_of(time->origin()),
                        significant_text(time->low / time->step, 2),
                        significant_text(time->high / time->step, 2));
  }
  if (const auto* cost = std::get_if<CostEstimate>(&first.cost)) {
    text += fmt::format(" Price of {}: {}.", first.candidate.gpu->slug, cost->source);
  }
  return text;
}

/// What each other value of one setting would do to the choice.
void add_choice(Page& page, const PlanAnswer& answer, const PlanView& view) {
  if (view.alternatives.empty() || answer.best.empty()) return;
  page.parts.emplace_back(Heading{"Why this choice: one setting changed, the others best"});
  Table table{{{"instead"},
               {"micro", Align::right},
               {"recompute"},
               {"layout"},
               {"at most", Align::right},
               {"step", Align::right},
               {"and so"}},
              {}};
  const double chosen = tokens_per_second(answer.best.front());
  for (const Alternative& other : view.alternatives) {
    const PlanCandidate& candidate = other.verdict.candidate;
    const bool fits = other.verdict.verdict == Verdict::fits;
    const double slower = chosen / tokens_per_second(other.verdict);
    table.rows.push_back(
        {{other.name, std::to_string(candidate.micro_batch), text_of(candidate.recompute),
          layout_text(candidate.parallelism), gib_text(other.verdict.high),
          cell(other.verdict.time,
               [](const TimeEstimate& time) { return seconds_text(time.step); }),
          fits ? fmt::format("{} × the time", significant_text(slower)) : other.verdict.reason},
         fits ? "" : "✗",
         fits ? Tone::plain : Tone::bad});
  }
  page.parts.emplace_back(std::move(table));
}

Page page_of(const PlanRequest& request, const PlanAnswer& answer, const Question& question,
             const PlanView& view) {
  Page page;
  const auto* missing = std::get_if<Unavailable>(&answer.unavailable);
  if (missing != nullptr) page.parts.emplace_back(not_known(*missing));
  page.parts.emplace_back(
      Heading{title_of(request.job, count_parameters(request.job.model).total)});
  if (missing != nullptr) return page;
  if (answer.best.empty() && answer.refused.empty()) return page;
  const Splits splits = splits_of(request.job);
  page.parts.emplace_back(table_of(answer, splits));
  if (splits == Splits::layers) page.parts.emplace_back(Paragraph{kLayoutLegend, Tone::faint});
  if (std::string legend = shards_legend(answer); !legend.empty()) {
    page.parts.emplace_back(Paragraph{std::move(legend), Tone::faint});
  }
  page.parts.emplace_back(Paragraph{left_out_text(answer) + provenance_of(answer), Tone::faint});
  if (view.front) {
    page.parts.emplace_back(Heading{"Not worse than any other in everything"});
    page.parts.emplace_back(front_table(answer, splits));
  }
  add_choice(page, answer, view);
  // Last, where a reader of a long answer looks: what won, and how to ask on.
  page.parts.emplace_back(conclusion_of(answer, splits));
  const PlanVerdict& first = answer.best.empty() ? answer.refused.front() : answer.best.front();
  if (!has_candidate(first)) return page;
  page.parts.emplace_back(Paragraph{"Why these numbers:\nmemest explain " + question.spec + " " +
                                        flags_of(first.candidate, splits),
                                    Tone::plain});
  return page;
}

Row record_of(const PlanVerdict& verdict) {
  const PlanCandidate& candidate = verdict.candidate;
  std::vector<std::string> cells = {candidate.gpu->slug,
                                    std::to_string(candidate.gpus),
                                    std::to_string(candidate.micro_batch),
                                    std::to_string(candidate.gradient_accumulation),
                                    text_of(candidate.recompute),
                                    std::string(stage_of(candidate.parallelism.zero)),
                                    std::string(name_of(verdict.verdict)),
                                    std::to_string(verdict.device.value()),
                                    std::to_string(verdict.low.value()),
                                    std::to_string(verdict.high.value()),
                                    std::to_string(verdict.capacity.value())};
  const auto* time = std::get_if<TimeEstimate>(&verdict.time);
  const auto* cost = std::get_if<CostEstimate>(&verdict.cost);
  cells.push_back(time == nullptr ? "" : exact_text(time->step.value()));
  cells.push_back(time == nullptr ? "" : exact_text(time->tokens_per_second_per_gpu));
  cells.push_back(time == nullptr ? "" : exact_text(time->mfu));
  cells.push_back(cost == nullptr ? "" : exact_text(cost->per_billion_tokens.value()));
  cells.push_back(verdict.reason);
  cells.push_back(lever_text(verdict.levers));
  cells.push_back(layout_text(candidate.parallelism));
  return {std::move(cells), "", {}};
}

Table records_of(const PlanAnswer& answer) {
  Table table;
  for (const char* title : {"gpu", "gpus", "micro_batch", "gradient_accumulation", "recompute",
                            "zero", "verdict", "device_bytes", "low_bytes", "high_bytes",
                            "capacity_bytes", "step_seconds", "tokens_per_second_per_gpu", "mfu",
                            "usd_per_billion_tokens", "reason", "lever", "layout"}) {
    table.columns.push_back({title});
  }
  for (const PlanVerdict& verdict : answer.best) table.rows.push_back(record_of(verdict));
  for (const PlanVerdict& verdict : answer.refused) table.rows.push_back(record_of(verdict));
  return table;
}

}  // namespace

Report report_plan(const PlanRequest& request, const PlanAnswer& answer, const Question& question,
                   const PlanView& view) {
  return {page_of(request, answer, question, view), records_of(answer),
          text_of(plan_json(answer, question, view))};
}

}  // namespace memest
