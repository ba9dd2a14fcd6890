// Two specs side by side: keys, numbers, verdicts.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/graph/parameters.hpp"
#include "memest/report/diff_report.hpp"
#include "memest/report/numbers.hpp"
#include "report/diff/changed_keys.hpp"
#include "report/diff/diff_chart.hpp"
#include "report/diff/figures.hpp"
#include "report/diff/summary.hpp"
#include "report/estimate/estimate_json.hpp"
#include "report/estimate/estimate_sections.hpp"
#include "report/pages/json.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

constexpr const char* kNoSuchNumber = "this side has no such number";
constexpr const char* kLeftOut = "left out, and nothing stands in its place";

/// Everything that is shown, made once.
struct SpecDiff {
  const SpecComparison& comparison;
  std::vector<DifferingKey> keys;
  std::vector<FigureRow> figures;
  std::vector<UnknownPart> unknown;
  std::string summary;
};

SpecDiff diff_of(const SpecComparison& comparison) {
  SpecDiff diff{comparison, changed_keys(comparison.a, comparison.b), figure_rows(comparison),
                unknown_parts(comparison), ""};
  diff.summary = summary_of(comparison, diff.keys, diff.figures);
  return diff;
}

std::string title_text(const ComparedSpec& spec) {
  return title_of(spec.job, spec.estimate.parameters.total) + "; " + setting_of(spec.job);
}

Table sides_table(const SpecComparison& comparison) {
  return {{{""}, {""}, {""}},
          {{{"A", comparison.a.name, title_text(comparison.a)}, "", Tone::plain},
           {{"B", comparison.b.name, title_text(comparison.b)}, "", Tone::plain}}};
}

std::string side_text(const KeySide& side) {
  if (side.value.empty()) return "–";
  return side.place.empty() ? side.value : fmt::format("{} ({})", side.value, side.place);
}

Table key_table(const SpecDiff& diff) {
  Table table{{{.title = "key", .fold = Fold::whole}, {"A"}, {"B"}}, {}};
  for (const DifferingKey& key : diff.keys) {
    table.rows.push_back({{key.key, side_text(key.a), side_text(key.b)},
                          "",
                          key.is_default() ? Tone::faint : Tone::plain});
  }
  return table;
}

std::string cell_of(const std::optional<FigureNumber>& number, const std::string& unit) {
  return number ? figure_text(*number, unit) : "–";
}

/// The moment of the peak; empty where the memory is not known.
std::string peak_of(const ComparedSpec& spec) {
  const auto* memory = std::get_if<MemoryAnswer>(&spec.estimate.memory);
  return memory == nullptr || memory->moments.empty() ? "" : memory->moments.front().name;
}

std::string verdict_of(const ComparedSpec& spec) {
  return std::string(verdict_text(spec.estimate));
}

/// The verdict stands behind the memory's numbers; a group has its name above it.
Table figure_table(const SpecDiff& diff) {
  Table table{{{""}, {"A", Align::right}, {"B", Align::right}, {"difference", Align::right}}, {}};
  const SpecComparison& comparison = diff.comparison;
  std::string group;
  for (const FigureRow& row : diff.figures) {
    if ((!row.differs() || row.one_sided) && !comparison.every_row) continue;
    if (row.group != group) {
      group = row.group;
      table.rows.push_back({{group}, "", Tone::strong});
    }
    table.rows.push_back({{"  " + row.name, cell_of(row.a, row.unit), cell_of(row.b, row.unit),
                           row.difference ? signed_text(*row.difference, row.unit) : "not known"},
                          "",
                          Tone::plain});
  }
  const std::string a = verdict_of(comparison.a);
  const std::string b = verdict_of(comparison.b);
  if (a != b || comparison.every_row) {
    table.rows.push_back({{"verdict", a, b, a == b ? "0" : "differs"}, "", Tone::strong});
  }
  return table;
}

/// The moments of the peaks, where they are not the same: then terms come and go with them.
std::string moments_text(const SpecComparison& comparison) {
  const std::string a = peak_of(comparison.a);
  const std::string b = peak_of(comparison.b);
  if (a.empty() || b.empty() || a == b) return {};
  return fmt::format("The peaks are at different moments: A's at {}; B's at {}.", a, b);
}

/// Whose memory it is, where the sides' ranks differ.
std::string ranks_text(const SpecComparison& comparison) {
  const auto* a = std::get_if<MemoryAnswer>(&comparison.a.estimate.memory);
  const auto* b = std::get_if<MemoryAnswer>(&comparison.b.estimate.memory);
  if (a == nullptr || b == nullptr) return {};
  const auto name = [](const MemoryAnswer& answer) {
    std::string text = whose_memory(answer.ranks);
    return text.empty() ? std::string("every rank") : text;
  };
  if (name(*a) == name(*b)) return {};
  return fmt::format("The memory is that of the ranks that take most: of A {}, of B {}.", name(*a),
                     name(*b));
}

/// A sentence for each reason and side, with all that is not known for it.
std::vector<std::string> unknown_texts(const std::vector<UnknownPart>& parts) {
  struct Reason {
    std::string side;
    std::string sentence;
    std::string parts;
  };
  std::vector<Reason> reasons;
  const auto add = [&reasons](const char* side, const std::string& sentence,
                              const std::string& part) {
    if (sentence.empty()) return;
    const auto found = std::ranges::find_if(reasons, [&](const Reason& reason) {
      return reason.side == side && reason.sentence == sentence;
    });
    if (found == reasons.end()) {
      reasons.push_back({side, sentence, part});
    } else {
      found->parts += ", " + part;
    }
  };
  for (const UnknownPart& part : parts) {
    if (part.a == part.b) {
      add("either", part.a, part.part);
      continue;
    }
    add("A", part.a, part.part);
    add("B", part.b, part.part);
  }
  std::vector<std::string> texts;
  for (const Reason& reason : reasons) {
    texts.push_back(
        fmt::format("Not known of {}: {}: {}.", reason.side, reason.parts, reason.sentence));
  }
  return texts;
}

Page page_of(const SpecDiff& diff) {
  const SpecComparison& comparison = diff.comparison;
  Page page;
  page.parts.emplace_back(Paragraph{diff.summary, tone_of(comparison)});
  page.parts.emplace_back(sides_table(comparison));
  if (std::optional<Chart> chart = terms_chart(diff.figures)) {
    page.parts.emplace_back(*std::move(chart));
  }
  if (!diff.keys.empty()) {
    page.parts.emplace_back(Heading{"What the specs say"});
    page.parts.emplace_back(key_table(diff));
  }
  Table figures = figure_table(diff);
  const auto equal =
      std::ranges::count_if(diff.figures, [](const FigureRow& row) { return !row.differs(); });
  if (!figures.rows.empty()) {
    page.parts.emplace_back(Heading{"What comes of it"});
    page.parts.emplace_back(std::move(figures));
  }
  for (std::string text : {moments_text(comparison), ranks_text(comparison)}) {
    if (!text.empty()) page.parts.emplace_back(Paragraph{std::move(text)});
  }
  for (std::string& sentence : unknown_texts(diff.unknown)) {
    page.parts.emplace_back(Paragraph{std::move(sentence), Tone::uncertain});
  }
  if (equal > 0 && !comparison.every_row) {
    page.parts.emplace_back(
        Paragraph{fmt::format("{} {} equal: -v shows {}.", equal,
                              equal == 1 ? "number is" : "numbers are", equal == 1 ? "it" : "them"),
                  Tone::faint});
  }
  return page;
}

Table records_of(const SpecDiff& diff) {
  Table table{{{"kind"}, {"group"}, {"name"}, {"a"}, {"b"}, {"difference"}, {"unit"}}, {}};
  const auto add = [&table](std::vector<std::string> cells) {
    table.rows.push_back({std::move(cells), "", {}});
  };
  for (const DifferingKey& key : diff.keys) {
    add({key.is_default() ? "default" : "key", "", key.key, key.a.value, key.b.value, "", ""});
  }
  const auto digits = [](const std::optional<FigureNumber>& number) {
    return number ? digits_of(*number) : std::string();
  };
  for (const FigureRow& row : diff.figures) {
    if (!row.differs() && !diff.comparison.every_row) continue;
    add({"number", row.group, row.name, digits(row.a), digits(row.b), digits(row.difference),
         row.unit});
  }
  add({"verdict", "", "verdict", verdict_of(diff.comparison.a), verdict_of(diff.comparison.b), "",
       ""});
  return table;
}

void put(Json& object, const std::string& key, const std::optional<FigureNumber>& number) {
  if (!number) return put_null(object, key, kNoSuchNumber);
  // Differences may be negative, so whole numbers are signed.
  if (const auto* bytes = std::get_if<Bytes>(&*number)) {
    object[key] = bytes->value();
  } else if (const auto* flops = std::get_if<Flops>(&*number)) {
    const Int128 value = flops->value();
    const bool fits = value <= std::numeric_limits<std::int64_t>::max() &&
                      value >= std::numeric_limits<std::int64_t>::min();
    if (!fits) return put_null(object, key, "the count is beyond 2^63");
    object[key] = static_cast<std::int64_t>(value);
  } else {
    object[key] = std::get<double>(*number);
  }
}

Json json_of(const KeySide& side) {
  Json json;
  if (side.value.empty()) {
    put_null(json, "value", kLeftOut);
    return json;
  }
  json["value"] = side.value;
  json["place"] = side.place;
  return json;
}

Json side_json(const ComparedSpec& spec) {
  Json json{{"name", spec.name},
            {"title", title_of(spec.job, spec.estimate.parameters.total)},
            {"setting", setting_of(spec.job)},
            {"verdict", verdict_text(spec.estimate)}};
  if (std::string peak = peak_of(spec); !peak.empty()) {
    json["peak"] = std::move(peak);
  } else {
    put_null(json, "peak", "the memory of this spec is not known");
  }
  return json;
}

Json json_of(const SpecDiff& diff, const Question& question) {
  const SpecComparison& comparison = diff.comparison;
  Json json = new_answer();
  json["kind"] = "specs";
  json["summary"] = diff.summary;
  json["equal"] = diff.keys.empty() && std::ranges::none_of(diff.figures, &FigureRow::differs);
  json["a"] = side_json(comparison.a);
  json["b"] = side_json(comparison.b);
  json["keys"] = Json::array();
  for (const DifferingKey& key : diff.keys) {
    json["keys"].push_back({{"key", key.key},
                            {"default", key.is_default()},
                            {"a", json_of(key.a)},
                            {"b", json_of(key.b)}});
  }
  json["numbers"] = Json::array();
  for (const FigureRow& row : diff.figures) {
    Json entry{{"group", row.group}, {"name", row.name}, {"unit", row.unit}};
    put(entry, "a", row.a);
    put(entry, "b", row.b);
    put(entry, "difference", row.difference);
    entry["differs"] = row.differs();
    json["numbers"].push_back(std::move(entry));
  }
  json["not_known"] = Json::array();
  for (const UnknownPart& part : diff.unknown) {
    json["not_known"].push_back({{"part", part.part}, {"a", part.a}, {"b", part.b}});
  }
  json["provenance"] = {{"versions", {{"memest", question.version}}}};
  return json;
}

/// Verdict, memory, time and price, each as it was and as it is.
std::vector<Headline> headlines_of(const SpecDiff& diff) {
  constexpr std::array<std::string_view, 3> kNames = {"device", "step", "cost of a billion tokens"};
  const SpecComparison& comparison = diff.comparison;
  const auto both = [](const std::string& a, const std::string& b) {
    return a == b ? a : a + " → " + b;
  };
  std::vector<Headline> lines = {{"verdict",
                                  both(verdict_of(comparison.a), verdict_of(comparison.b)),
                                  fits_no_more(comparison) ? Tone::bad : Tone::plain}};
  for (const FigureRow& row : diff.figures) {
    if (std::ranges::find(kNames, row.name) == kNames.end()) continue;
    lines.push_back({row.name, both(cell_of(row.a, row.unit), cell_of(row.b, row.unit))});
  }
  return lines;
}

}  // namespace

bool fits_no_more(const SpecComparison& comparison) {
  const auto* a = std::get_if<MemoryAnswer>(&comparison.a.estimate.memory);
  const auto* b = std::get_if<MemoryAnswer>(&comparison.b.estimate.memory);
  return a != nullptr && b != nullptr && a->overall() != Verdict::does_not_fit &&
         b->overall() == Verdict::does_not_fit;
}

Report report_diff(const SpecComparison& comparison, const Question& question) {
  const SpecDiff diff = diff_of(comparison);
  return {page_of(diff), records_of(diff),
          text_for(question, [&] { return json_of(diff, question); }), headlines_of(diff),
          comparison.a.name + " against " + comparison.b.name};
}

}  // namespace memest
