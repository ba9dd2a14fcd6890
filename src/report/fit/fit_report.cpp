#include "memest/report/fit_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memest/graph/parameters.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/fit/fit_chart.hpp"
#include "report/fit/rung_text.hpp"
#include "report/pages/json.hpp"
#include "report/pages/modelled.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

/// Rungs that a page shows of those that fit, and of the others that are of several techniques.
constexpr std::size_t kShownFitting = 8;
constexpr std::size_t kShownTogether = 3;

std::string step_text(const Rung& rung) { return rung.step ? seconds_text(*rung.step) : "–"; }

std::string times_text(const Rung& rung, const Rung& own) {
  if (!rung.step || !own.step) return "";
  return fmt::format("{:.2f}", *rung.step / *own.step);
}

Row row_of(const Rung& rung, const FitLadder& ladder) {
  const bool fits = rung.verdict == Verdict::fits;
  const bool fails = rung.verdict == Verdict::does_not_fit;
  return {{name_of(rung, ladder), sized_text(rung.taken), step_text(rung),
           times_text(rung, ladder.own), rung.host ? sized_text(*rung.host) : ""},
          fits    ? "✓"
          : fails ? "✗"
                  : "?",
          fits    ? Tone::plain
          : fails ? Tone::faint
                  : Tone::uncertain};
}

/// The rungs of a page: those that fit, each technique alone, and the nearest misses of several.
std::vector<const Rung*> shown_of(const FitLadder& ladder) {
  std::vector<const Rung*> shown;
  std::size_t together = 0;
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    const Rung& rung = ladder.rungs[i];
    const bool fits = i < ladder.fitting();
    const bool alone = rung.techniques.size() == 1;
    if (fits ? i < kShownFitting : alone || together++ < kShownTogether) shown.push_back(&rung);
  }
  return shown;
}

Table ladder_table(const FitLadder& ladder) {
  Table table{{{"with"},
               {"memory", Align::right},
               {"step", Align::right},
               {"× step", Align::right},
               {"host", Align::right}},
              {}};
  table.rows.push_back(row_of(ladder.own, ladder));
  for (const Rung* rung : shown_of(ladder)) table.rows.push_back(row_of(*rung, ladder));
  return table;
}

/// A row for each technique that a shown rung has.
Table changes_table(const FitLadder& ladder) {
  std::set<std::size_t> used;
  for (const Rung* rung : shown_of(ladder)) {
    used.insert(rung->techniques.begin(), rung->techniques.end());
  }
  Table table{{{"technique"}, {"what to write"}}, {}};
  for (const std::size_t i : used) {
    const Technique& technique = ladder.techniques[i];
    table.rows.push_back({{technique.name, technique.change}, "", Tone::plain});
  }
  return table;
}

std::string summary_of(const FitLadder& ladder) {
  const std::string own =
      fmt::format("{} of {}", sized_text(ladder.own.taken), sized_text(ladder.capacity));
  if (ladder.own.verdict == Verdict::fits) return fmt::format("Fits as written: {}", own);
  const std::size_t fitting = ladder.fitting();
  if (fitting == 0) return fmt::format("Nothing here makes it fit: {} as written", own);
  const Rung& best = ladder.rungs.front();
  return fmt::format("Does not fit as written: {}. Fits with {}: {}, a step of {}", own,
                     name_of(best, ladder), sized_text(best.taken), step_text(best));
}

void add_caveats(const FitLadder& ladder, Page& page) {
  std::set<std::string> said;
  for (const Rung* rung : shown_of(ladder)) {
    for (const std::size_t i : rung->techniques) {
      const Technique& technique = ladder.techniques[i];
      if (technique.caveat.empty() || !said.insert(technique.name).second) continue;
      page.parts.emplace_back(
          Paragraph{fmt::format("{}: {}.", technique.name, technique.caveat), Tone::uncertain});
    }
  }
}

/// The best rung as a command that confirms it.
std::string confirming(const FitLadder& ladder, const Question& question) {
  std::string command = "memest estimate " + question.spec;
  for (const std::string& set : sets_of(ladder.rungs.front(), ladder)) {
    command += " \\\n  --set '" + set + "'";
  }
  return command;
}

Page page_of(const Job& job, const FitLadder& ladder, const Question& question) {
  const bool fits = ladder.own.verdict == Verdict::fits || ladder.fitting() > 0;
  Page page{{Heading{title_of(job, count_parameters(job).total)}, Paragraph{setting_of(job)},
             Paragraph{summary_of(ladder) + ".", fits ? Tone::good : Tone::bad}}};
  page.parts.emplace_back(ladder_chart(ladder));
  page.parts.emplace_back(ladder_table(ladder));
  page.parts.emplace_back(changes_table(ladder));
  add_caveats(ladder, page);
  for (const RefusedTechnique& refused : ladder.refused) {
    page.parts.emplace_back(
        Paragraph{fmt::format("Not for this job: {}: {}.",
                              ladder.techniques[refused.technique].name, refused.reason),
                  Tone::faint});
  }
  if (ladder.own.verdict != Verdict::fits && ladder.fitting() > 0) {
    page.parts.emplace_back(
        Paragraph{"The first of them, as an estimate:\n" + confirming(ladder, question)});
  }
  if (!fits) {
    page.parts.emplace_back(
        Paragraph{"More GPUs, or other ways to share the model:\nmemest plan " + question.spec});
  }
  page.parts.emplace_back(Paragraph{provenance_text(job), Tone::faint});
  return page;
}

Json rung_json(const Rung& rung, const FitLadder& ladder) {
  Json names = Json::array();
  for (const std::size_t i : rung.techniques) names.push_back(ladder.techniques[i].name);
  Json json{{"techniques", std::move(names)},
            {"sets", sets_of(rung, ladder)},
            {"verdict", name_of(rung.verdict)},
            {"memory_bytes", rung.taken.value()},
            {"memory_low_bytes", rung.low.value()},
            {"memory_high_bytes", rung.high.value()},
            {"changes_training", ladder.has_caveat(rung)}};
  json["host_bytes"] = rung.host ? Json(rung.host->value()) : Json(0);
  if (rung.step) json["step_seconds"] = rung.step->value();
  return json;
}

Json techniques_json(const FitLadder& ladder) {
  Json list = Json::array();
  for (const Technique& technique : ladder.techniques) {
    list.push_back({{"name", technique.name},
                    {"sets", technique.sets},
                    {"change", technique.change},
                    {"caveat", technique.caveat}});
  }
  return list;
}

std::string json_of(const FitLadder& ladder, const Question& question) {
  Json json = new_answer();
  json["capacity_bytes"] = ladder.capacity.value();
  json["as_written"] = rung_json(ladder.own, ladder);
  json["techniques"] = techniques_json(ladder);
  json["rungs"] = Json::array();
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    Json rung = rung_json(ladder.rungs[i], ladder);
    rung["on_front"] = std::ranges::find(ladder.front, i) != ladder.front.end();
    json["rungs"].push_back(std::move(rung));
  }
  json["refused"] = Json::array();
  for (const RefusedTechnique& refused : ladder.refused) {
    json["refused"].push_back(
        {{"technique", ladder.techniques[refused.technique].name}, {"reason", refused.reason}});
  }
  json["provenance"] = {{"versions", {{"memest", question.version}}}};
  return text_of(json);
}

Table records_of(const FitLadder& ladder) {
  Table table{
      {{"techniques"}, {"verdict"}, {"memory_bytes"}, {"host_bytes"}, {"step_seconds"}, {"sets"}},
      {}};
  const auto add = [&](const Rung& rung) {
    table.rows.push_back(
        {{name_of(rung, ladder), std::string(name_of(rung.verdict)),
          std::to_string(rung.taken.value()), std::to_string(rung.host ? rung.host->value() : 0),
          rung.step ? fmt::format("{}", rung.step->value()) : "",
          fmt::format("{}", fmt::join(sets_of(rung, ladder), "; "))},
         "",
         Tone::plain});
  };
  add(ladder.own);
  for (const Rung& rung : ladder.rungs) add(rung);
  return table;
}

std::vector<Headline> headlines_of(const FitLadder& ladder) {
  const bool fits = ladder.own.verdict == Verdict::fits;
  const bool helps = ladder.fitting() > 0;
  const Rung& best = fits || !helps ? ladder.own : ladder.rungs.front();
  return {{"Verdict",
           fits    ? "Fits as written"
           : helps ? "Fits with " + name_of(best, ladder)
                   : "Nothing here makes it fit",
           fits || helps ? Tone::good : Tone::bad},
          {"Memory", fmt::format("{} of {}", sized_text(best.taken), sized_text(ladder.capacity))},
          {"A step", step_text(best)},
          {"Cost", best.step && ladder.own.step
                       ? times_text(best, ladder.own) + " times that of as written"
                       : std::string("not known")}};
}

}  // namespace

Report report_fit(const Job& job, const FitLadder& ladder, const Question& question) {
  return {page_of(job, ladder, question), records_of(ladder), json_of(ladder, question),
          headlines_of(ladder)};
}

}  // namespace memest
