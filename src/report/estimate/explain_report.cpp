#include "memest/report/explain_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/estimate/formula_json.hpp"
#include "report/pages/json.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

Table block_of(const Explanation& row) {
  Table table{{{""}, {""}}, {}};
  const auto line = [&](const char* label, const std::string& text) {
    if (!text.empty()) table.rows.push_back({{label, text}, "", {}});
  };
  line("formula", row.formula);
  if (row.substituted != row.formula) line("with values", row.substituted);
  table.rows.push_back({{"value", row.value}, "", Tone::strong});
  line("source", row.source);
  return table;
}

std::vector<Symbol> letters_of(const std::vector<Explanation>& explanations) {
  std::vector<Symbol> letters;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    const Symbol symbol = static_cast<Symbol>(i);
    const bool used =
        std::any_of(explanations.begin(), explanations.end(), [symbol](const Explanation& row) {
          return row.expression && row.expression->uses(symbol);
        });
    if (used) letters.push_back(symbol);
  }
  return letters;
}

Table legend_of(const std::vector<Symbol>& letters, const Bindings& bindings) {
  Table table{{{"letter"}, {"value", Align::right}, {"meaning"}}, {}};
  for (const Symbol symbol : letters) {
    table.rows.push_back(
        {{std::string(letter(symbol)), bindings.has(symbol) ? grouped(bindings.at(symbol)) : "",
          std::string(meaning(symbol))},
         "",
         {}});
  }
  return table;
}

/// The ledger's letters; what the ledger left out the job knows.
Bindings bindings_of(const Job& job, const JobEstimate& estimate) {
  Bindings bindings;
  if (const ForwardSpec* pass = job.forward()) {
    bindings.set(Symbol::micro_batch, pass->micro_batch)
        .set(Symbol::seq_len, pass->seq_len)
        .set(Symbol::micro_batches, job.training ? job.training->gradient_accumulation : 1);
  }
  bindings.set(Symbol::parameters, estimate.parameters.total);
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  if (memory == nullptr) return bindings;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    const Symbol symbol = static_cast<Symbol>(i);
    if (memory->ledger.bindings.has(symbol))
      bindings.set(symbol, memory->ledger.bindings.at(symbol));
  }
  return bindings;
}

template <class T>
void add_missing(Page& page, const char* what, const std::variant<T, Unavailable>& value) {
  if (const auto* missing = std::get_if<Unavailable>(&value)) {
    page.parts.emplace_back(
        Paragraph{fmt::format("{}: not available: {}", what, missing->sentence), Tone::plain});
  }
}

Page page_of(const Job& job, const JobEstimate& estimate, const Explained& explained,
             const Question& question) {
  const std::vector<Explanation>& explanations = explained.rows;
  Page page;
  const auto* missing = std::get_if<Unavailable>(&estimate.memory);
  if (!explained.is_known && missing != nullptr) page.parts.emplace_back(not_known(*missing));
  page.parts.emplace_back(Heading{title_of(job, estimate.parameters.total)});
  page.parts.emplace_back(Paragraph{setting_of(job), Tone::plain});
  for (const Explanation& row : explanations) {
    const bool says_group = row.name.find(row.group) != std::string::npos;
    page.parts.emplace_back(Heading{says_group ? row.name : row.name + " · " + row.group});
    page.parts.emplace_back(block_of(row));
  }
  const std::vector<Symbol> letters = letters_of(explanations);
  if (!letters.empty()) {
    page.parts.emplace_back(Heading{"Letters"});
    page.parts.emplace_back(legend_of(letters, bindings_of(job, estimate)));
  }
  add_missing(page, "Memory", estimate.memory);
  add_missing(page, "FLOPs", estimate.flops);
  add_missing(page, "Time", estimate.time);
  add_missing(page, "Money", estimate.cost);
  for (const std::string& assumption : estimate.assumptions) {
    page.parts.emplace_back(Paragraph{"Assumed: " + assumption, Tone::uncertain});
  }
  page.parts.emplace_back(Paragraph{provenance_text(job), Tone::faint});
  page.parts.emplace_back(Paragraph{"All at once: memest estimate " + question.spec, Tone::plain});
  return page;
}

std::string exact_number(const Explanation& row) {
  if (const auto* bytes = std::get_if<Bytes>(&row.number)) return to_string(bytes->value());
  if (const auto* flops = std::get_if<Flops>(&row.number)) return to_string(flops->value());
  return exact_text(std::get<double>(row.number));
}

Table records_of(const std::vector<Explanation>& explanations) {
  Table table{{{"group"}, {"name"}, {"value"}, {"unit"}, {"formula"}, {"substituted"}, {"source"}},
              {}};
  for (const Explanation& row : explanations) {
    table.rows.push_back({{row.group, row.name, exact_number(row), row.unit, row.formula,
                           row.substituted, row.source},
                          "",
                          {}});
  }
  return table;
}

Json number_json(const Explanation& row) {
  Json json{{"name", row.name}, {"group", row.group}};
  json["formula"] = row.formula;
  json["substituted"] = row.substituted;
  std::visit([&](auto number) { put(json, "value", number); }, row.number);
  json["unit"] = row.unit;
  json["source"] = row.source;
  put_tree(json, row);
  return json;
}

Json json_of(const Job& job, const JobEstimate& estimate, const Explained& explained) {
  const std::vector<Explanation>& explanations = explained.rows;
  Json json = new_answer();
  json["known"] = explained.is_known;
  json["numbers"] = Json::array();
  for (const Explanation& row : explanations) json["numbers"].push_back(number_json(row));
  json["letters"] = Json::array();
  const Bindings bindings = bindings_of(job, estimate);
  for (const Symbol symbol : letters_of(explanations)) {
    Json entry{{"letter", letter(symbol)}, {"meaning", meaning(symbol)}};
    if (bindings.has(symbol)) entry["value"] = bindings.at(symbol);
    json["letters"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

Report report_explanations(const Job& job, const JobEstimate& estimate, const Explained& explained,
                           const Question& question) {
  return {page_of(job, estimate, explained, question), records_of(explained.rows),
          text_for(question, [&] { return json_of(job, estimate, explained); })};
}

}  // namespace memest
