#include "memest/report/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/report/numbers.hpp"
#include "memest/spec/parallel/sharing.hpp"
#include "report/pages/title.hpp"
#include "report/plan/plan_chart.hpp"
#include "report/plan/plan_choices.hpp"
#include "report/plan/plan_json.hpp"
#include "report/plan/plan_layout.hpp"
#include "report/plan/plan_order.hpp"
#include "report/plan/plan_records.hpp"
#include "report/plan/plan_training.hpp"

namespace memest {
namespace {

constexpr const char* kLayoutLegend =
    "Layouts: t tensor, c context, p pipeline, v stages a rank, x expert, D data-parallel ranks, Z "
    "what they shard.";

constexpr const char* kChoicesLegend =
    "By: the implementation, +c with compiled blocks. All are tried on the first row's GPUs, on "
    "the "
    "others the first that takes the spec and the best.";

/// A framework's plans have one version of FSDP.
std::string letters_of_shards(bool flat) {
  return std::string("Shards: f FSDP") + (flat ? "1" : "2") +
         ", r its replicas, +o the optimizer on the host, +w the weights.";
}

/// "17.2", "17.2 to 21.3".
std::string gib_range(std::pair<Bytes, Bytes> range) {
  const std::string least = gib_text(range.first);
  const std::string most = gib_text(range.second);
  return least == most ? most : least + " to " + most;
}

/// Legend of the rows that people read, with their host memory; empty where none needs it.
std::string shards_legend(const PlanAnswer& answer) {
  bool shows_letters = false;
  bool flat = false;
  std::vector<Bytes> taken;
  std::vector<Bytes> offered;
  for (std::size_t i = 0; i < std::min(answer.best.size(), kShownPlans); ++i) {
    const PlanVerdict& verdict = answer.best[i];
    const Parallelism& layout = verdict.candidate.parallelism;
    const bool offloads = layout.offload.any();
    shows_letters = shows_letters || sharing_of(layout).in_units() || offloads;
    flat = flat || sharing_of(layout).in_flat_units();
    if (!verdict.host) continue;
    taken.push_back(verdict.host->of_rank);
    offered.emplace_back(verdict.host->capacity.bytes.value() / verdict.host->ranks);
  }
  std::string legend = shows_letters ? letters_of_shards(flat) : "";
  if (taken.empty()) return legend;
  const auto range = [](const std::vector<Bytes>& all) {
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return gib_range({*least, *most});
  };
  legend += fmt::format(
      "{}They take {} GiB of the host's memory a GPU, beside the process, of {} that such nodes "
      "have.",
      legend.empty() ? "" : " ", range(taken), range(offered));
  return legend;
}

/// Not where no layout divides the model, or no batch.
bool has_candidate(const PlanVerdict& verdict) { return verdict.device > Bytes(); }

/// How the rows look: which columns there are.
struct PlanLook {
  const PlanRequest& request;
  const PlanView& view;
  Splits splits = Splits::data;  ///< of any row

  [[nodiscard]] bool compares() const { return !view.compared.empty(); }
  [[nodiscard]] const std::optional<Goal>& goal() const { return request.goal; }
};

const Job& job_of(const PlanVerdict& row, const PlanRequest& request, const PlanView& view) {
  return row.choice < view.choices.size() ? *view.choices[row.choice].job : request.job;
}

PlanLook look_of(const PlanRequest& request, const PlanAnswer& answer, const PlanView& view) {
  PlanLook look{request, view, Splits::data};
  for (const auto* rows : {&answer.best, &answer.refused}) {
    for (const PlanVerdict& row : *rows) {
      if (splits_of(job_of(row, request, view)) == Splits::layers) look.splits = Splits::layers;
    }
  }
  return look;
}

std::vector<std::string> settings_of(const PlanVerdict& row, const PlanLook& look) {
  const PlanCandidate& candidate = row.candidate;
  std::vector<std::string> cells = {fmt::format("{} × {}", candidate.gpus, candidate.gpu->slug)};
  if (look.compares()) cells.push_back(short_name_of(look.view.choices[row.choice]));
  cells.insert(cells.end(), {std::to_string(candidate.micro_batch), text_of(candidate.recompute),
                             look.splits == Splits::layers ? layout_text(candidate.parallelism)
                                                           : shards_text(candidate.parallelism)});
  return cells;
}

Row best_row(const PlanVerdict& verdict, const PlanLook& look, bool first) {
  std::vector<std::string> cells = settings_of(verdict, look);
  const auto time = [&](const auto& write) { cells.push_back(cell(verdict.time, write)); };
  const auto finished = [&]() -> Row {
    if (verdict.verdict == Verdict::too_close_to_call)
      return {std::move(cells), "±", Tone::uncertain};
    return {std::move(cells), first ? "▸" : "", first ? Tone::good : Tone::plain};
  };
  if (!look.goal() && !look.compares()) cells.push_back(gib_text(verdict.device));
  cells.push_back(gib_text(verdict.high));
  cells.push_back(gib_text(verdict.capacity));
  if (look.goal()) {
    for (std::string& text : training_cells(verdict, *look.goal())) {
      cells.push_back(std::move(text));
    }
    return finished();
  }
  time([](const TimeEstimate& value) { return seconds_text(value.step); });
  time([&](const TimeEstimate& value) {
    return count_text(value.tokens_per_second_per_gpu *
                      static_cast<double>(verdict.candidate.gpus));
  });
  time([](const TimeEstimate& value) { return percent_text(value.mfu); });
  cells.push_back(cell(verdict.cost, [](const CostEstimate& value) {
    return significant_text(value.per_billion_tokens.value());
  }));
  return finished();
}

std::string why_text(const PlanVerdict& verdict, const PlanLook& look) {
  if (!has_candidate(verdict)) return verdict.reason;
  std::string why =
      fmt::format("{}: {}", settings_text(verdict.candidate, look.splits), verdict.reason);
  const std::string lever = lever_text(verdict.levers);
  if (!lever.empty()) why += (why.empty() ? "" : "; ") + lever;
  return why;
}

Row refused_row(const PlanVerdict& verdict, const PlanLook& look) {
  std::vector<std::string> cells = settings_of(verdict, look);
  cells.resize(look.compares() ? 2 : 1);
  cells.push_back(why_text(verdict, look));
  return {std::move(cells), "✗", Tone::bad};
}

Table empty_table(const PlanLook& look) {
  Table table{{{"GPUs"}}, {}};
  if (look.compares()) table.columns.push_back({"by"});
  table.columns.push_back({"micro", Align::right});
  table.columns.push_back({"recompute"});
  table.columns.push_back(
      {.title = look.splits == Splits::layers ? "layout" : "ZeRO", .fold = Fold::whole});
  const auto add = [&table](std::initializer_list<const char*> titles) {
    for (const char* title : titles) table.columns.push_back({title, Align::right});
  };
  if (look.goal()) {
    add({"at most", "of GiB", "days", "GPU-hours", "USD"});
  } else {
    if (!look.compares()) add({"peak"});
    add({"at most", "of GiB", "step", "tokens/s", "MFU", "USD/B tok"});
  }
  return table;
}

Table table_of(const PlanLook& look, const PlanAnswer& answer) {
  Table table = empty_table(look);
  const std::size_t best = std::min(answer.best.size(), kShownPlans);
  for (std::size_t i = 0; i < best; ++i) {
    table.rows.push_back(best_row(answer.best[i], look, i == 0));
  }
  for (std::size_t i = 0; i < std::min(answer.refused.size(), kShownRefusals); ++i) {
    table.rows.push_back(refused_row(answer.refused[i], look));
  }
  return table;
}

/// Rows of the front: of many points, those spaced evenly between the cheapest and the last.
Table front_table(const PlanLook& look, const PlanAnswer& answer) {
  Table table = empty_table(look);
  const std::size_t count = answer.front.size();
  const std::size_t shown = std::min(count, kShownPlans);
  for (std::size_t i = 0; i < shown; ++i) {
    // The first and the last are always among them: of 23 points the 12 rows are every second.
    const std::size_t index = shown == 1 ? 0 : i * (count - 1) / (shown - 1);
    table.rows.push_back(best_row(answer.front[index], look, false));
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
  std::string text =
      fmt::format("{}; at most {} of {} GiB", settings_text(verdict.candidate, splits),
                  gib_text(verdict.high), gib_text(verdict.capacity));
  if (const auto* time = std::get_if<TimeEstimate>(&verdict.time)) {
    text += fmt::format(", {} a step", seconds_text(time->step));
  }
  return text;
}

/// The sentence where every row is refused.
std::string nothing_text(const std::optional<Goal>& goal) {
  return goal && goal->within ? "Nothing fits in that time." : "Nothing fits.";
}

/// The first row's rank in a word, by what it is ranked.
const char* rank_text(Objective objective) {
  switch (objective) {
    case Objective::money:
      return "Cheapest";
    case Objective::time:
      return "Fastest";
    case Objective::memory:
      return "Most memory free";
    case Objective::gpus:
      return "Fewest GPUs";
  }
  unreachable("every objective ranks");
}

Paragraph conclusion_of(const PlanAnswer& answer, const PlanLook& look) {
  if (answer.best.empty()) return {nothing_text(look.goal()), Tone::bad};
  const PlanVerdict& first = answer.best.front();
  if (first.verdict != Verdict::fits) {
    return {"Nothing surely fits: the rows marked ± are too close to call.", Tone::uncertain};
  }
  const auto* cost = std::get_if<CostEstimate>(&first.cost);
  const std::string name = fmt::format("{} × {}", first.candidate.gpus, first.candidate.gpu->slug);
  std::string choice = choice_text(first, splits_of(job_of(first, look.request, look.view)));
  if (look.compares()) choice = name_of(look.view.choices[first.choice]) + ", " + choice;
  const std::string training = look.goal() ? training_text(first, *look.goal()) : "";
  if (cost == nullptr) {
    return {fmt::format("No price is known; first: {}: {}.{}", name, choice, training),
            Tone::strong};
  }
  return {fmt::format("{}: {}, {} per billion tokens: {}.{}", rank_text(look.request.objective),
                      name, dollars_text(cost->per_billion_tokens), choice, training),
          Tone::strong};
}

/// The method of the rows that are shown.
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

Page page_of(const PlanRequest& request, const PlanAnswer& answer, const Question& question,
             const PlanView& view) {
  Page page;
  const auto* missing = std::get_if<Unavailable>(&answer.unavailable);
  if (missing != nullptr) page.parts.emplace_back(not_known(*missing));
  page.parts.emplace_back(Heading{title_of(request.job, count_parameters(request.job).total)});
  if (missing != nullptr) return page;
  if (answer.best.empty() && answer.refused.empty()) return page;
  const PlanLook look = look_of(request, answer, view);
  page.parts.emplace_back(plans_chart(answer));
  page.parts.emplace_back(table_of(look, answer));
  if (look.splits == Splits::layers) page.parts.emplace_back(Paragraph{kLayoutLegend, Tone::faint});
  if (std::string legend = shards_legend(answer); !legend.empty()) {
    page.parts.emplace_back(Paragraph{std::move(legend), Tone::faint});
  }
  page.parts.emplace_back(Paragraph{left_out_text(answer) + provenance_of(answer), Tone::faint});
  if (view.front) {
    page.parts.emplace_back(Heading{"Not worse than any other in everything"});
    page.parts.emplace_back(front_table(look, answer));
  }
  if (!answer.best.empty()) {
    const PlanVerdict& first = answer.best.front();
    std::string order = order_text(first, request.job.source_margins.order,
                                   splits_of(job_of(first, request, view)));
    if (!order.empty()) page.parts.emplace_back(Paragraph{std::move(order), Tone::faint});
  }
  if (look.compares()) page.parts.emplace_back(Paragraph{kChoicesLegend, Tone::faint});
  add_choices(page, view);
  add_alternatives(page, answer, view);
  // Last, where a reader of a long answer looks: what won, and how to ask on.
  page.parts.emplace_back(conclusion_of(answer, look));
  const PlanVerdict& first = answer.best.empty() ? answer.refused.front() : answer.best.front();
  if (!has_candidate(first)) return page;
  const std::string flags =
      flags_of(first.candidate, splits_of(job_of(first, request, view))) +
      (first.choice < view.choices.size() ? flags_of(view.choices[first.choice]) : "");
  page.parts.emplace_back(
      Paragraph{"Why these numbers:\nmemest explain " + question.spec + " " + flags, Tone::plain});
  return page;
}

}  // namespace

Report report_plan(const PlanRequest& request, const PlanAnswer& answer, const Question& question,
                   const PlanView& view) {
  return {page_of(request, answer, question, view), records_of(request, answer, view),
          text_for(question, [&] { return plan_json(request, answer, question, view); }),
          headlines_of(answer)};
}

}  // namespace memest
