#include "report/estimate/formula_json.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "memest/symbolic/formula.hpp"

namespace memest {
namespace {

using Kind = Formula::Kind;

Json operation(std::string_view name, Json parts) {
  return {{"op", name}, {"of", std::move(parts)}};
}

Json tree_of(const Formula& formula, const Bindings& bindings) {
  if (formula.kind == Kind::number) return {{"number", formula.number}};
  if (formula.kind == Kind::letter) {
    return {{"letter", letter(formula.symbol)},
            {"meaning", meaning(formula.symbol)},
            {"value", bindings.at(formula.symbol)}};
  }
  Json parts = Json::array();
  for (const Formula& part : formula.parts) parts.push_back(tree_of(part, bindings));
  if (formula.kind == Kind::power) parts.push_back({{"number", formula.number}});
  return operation(name_of(formula.kind), std::move(parts));
}

bool divides(const Formula& formula) {
  return formula.kind == Kind::quotient || std::ranges::any_of(formula.parts, divides);
}

Json tree_of(const SummedNumber& part) {
  Json json{{"name", part.name}};
  std::visit([&](auto number) { put(json, "value", number); }, part.number);
  return json;
}

}  // namespace

void put_tree(Json& json, const Explanation& row) {
  if (row.expression) {
    const Formula formula = written_form(*row.expression);
    Json tree = tree_of(formula, row.bindings);
    // A share of a tensor is whole bytes.
    if (divides(formula)) tree = operation("ceiling", Json::array({std::move(tree)}));
    json["tree"] = std::move(tree);
  } else if (!row.summed.empty()) {
    Json parts = Json::array();
    for (const SummedNumber& part : row.summed) parts.push_back(tree_of(part));
    json["tree"] = operation("sum", std::move(parts));
  } else {
    put_null(json, "tree", "the formula is words");
  }
}

}  // namespace memest
