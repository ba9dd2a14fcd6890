#include "memest/report/gpus/catalog_report.hpp"

#include <fmt/format.h>

#include <string>

#include "memest/graph/parameters.hpp"
#include "memest/report/numbers.hpp"
#include "report/pages/json.hpp"

namespace memest {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : ", ") + word;
  return result;
}

/// A list that says the same in every format. `key` names the rows in JSON, whose members are the
/// titles; on the page the last two columns, which are prose, stand under the rest of their row.
Report listing(const Table& table, const char* key, std::string closing) {
  const std::size_t short_columns = table.columns.size() - 2;
  Table shown;
  Json json = new_answer();
  json[key] = Json::array();
  for (std::size_t i = 0; i < short_columns; ++i) shown.columns.push_back(table.columns[i]);
  for (const Row& row : table.rows) {
    Row head;
    Json entry;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      entry[table.columns[i].title] = row.cells[i];
      if (i < short_columns) head.cells.push_back(row.cells[i]);
    }
    head.tone = Tone::strong;
    shown.rows.push_back(std::move(head));
    for (std::size_t i = short_columns; i < table.columns.size(); ++i) {
      shown.rows.push_back({{"", row.cells[i]}, "", {}});
    }
    json[key].push_back(std::move(entry));
  }
  return {{{std::move(shown), Paragraph{std::move(closing), Tone::plain}}}, table, text_of(json)};
}

std::string bytes_a_parameter(const Recipe& recipe) {
  const auto size = [](DType type) { return std::to_string(size_of(type)); };
  return fmt::format("{} + {} + {}", size(recipe.weights), size(recipe.gradients),
                     recipe.master ? size(*recipe.master) : "0");
}

}  // namespace

Report report_models(const std::vector<NamedModel>& models) {
  Table table{
      {{"model"}, {"family"}, {"parameters", Align::right}, {"active", Align::right}, {"answers"}},
      {}};
  Json json = new_answer();
  json["models"] = Json::array();
  Table records{{{"model"}, {"family"}, {"parameters"}, {"active_parameters"}, {"answers"}}, {}};
  for (const NamedModel& named : models) {
    const ParameterCounts counts = count_parameters(named.model);
    const std::string family(name_of(named.model.family));
    table.rows.push_back(
        {{named.name, family, count_text(static_cast<double>(counts.total)),
          counts.active == counts.total ? "" : count_text(static_cast<double>(counts.active)),
          named.missing ? "parameters alone" : "memory, FLOPs, time"},
         "",
         named.missing ? Tone::faint : Tone::plain});
    records.rows.push_back(
        {{named.name, family, std::to_string(counts.total), std::to_string(counts.active),
          named.missing ? "parameters" : "parameters, memory, FLOPs, time"},
         "",
         {}});
    Json entry{{"model", named.name},
               {"family", family},
               {"parameters", counts.total},
               {"active_parameters", counts.active},
               {"answers", Json::array({"parameters"})}};
    if (named.missing) {
      entry["not_known"] = named.missing->sentence;
    } else {
      for (const char* answer : {"memory", "flops", "time"}) entry["answers"].push_back(answer);
    }
    json["models"].push_back(std::move(entry));
  }
  Page page{{std::move(table), Paragraph{"What one needs: memest plan NAME", Tone::plain}}};
  return {std::move(page), std::move(records), text_of(json)};
}

Report report_recipes(const std::vector<Recipe>& recipes) {
  Table table{{{"recipe"}, {"bytes"}, {"compute"}, {"description"}, {"source"}}, {}};
  for (const Recipe& recipe : recipes) {
    table.rows.push_back({{recipe.name, bytes_a_parameter(recipe),
                           std::string(name_of(recipe.compute)), recipe.description, recipe.source},
                          "",
                          {}});
  }
  return listing(
      table, "recipes",
      "Bytes a parameter: weights + gradients + master copy; the optimizer's states come on "
      "top. In a spec: training.precision.");
}

Report report_optimizers(const std::vector<Optimizer>& optimizers) {
  Table table{{{"optimizer"}, {"states"}, {"implementations"}, {"description"}, {"source"}}, {}};
  for (const Optimizer& optimizer : optimizers) {
    std::vector<std::string> states;
    for (const OptimizerState& state : optimizer.states) states.push_back(state.name);
    std::vector<std::string> implementations;
    for (const ImplementationTransient& row : optimizer.implementations) {
      implementations.emplace_back(name_of(row.implementation));
    }
    table.rows.push_back({{optimizer.name, joined(states), joined(implementations),
                           optimizer.description, optimizer.source},
                          "",
                          {}});
  }
  return listing(
      table, "optimizers",
      "The first implementation is the framework's default. In a spec: training.optimizer.");
}

}  // namespace memest
