#include "memory/optimizer/parameter_groups.hpp"

#include <iterator>
#include <string>
#include <utility>

namespace memest {
namespace {

/// Where `row` of layer `layer` stands in the order of Module.parameters(), which has a module's
/// own before its submodules': of the placement's order that GPT-OSS's sinks alone are not in.
ParameterGroup::iterator place_in(ParameterGroup& group, const Timeline& timeline,
                                  const ParameterTensor& row, std::int64_t layer) {
  auto at = group.end();
  const std::size_t module = row.name.rfind(".sinks");
  if (module == std::string::npos) return at;
  const auto is_sibling = [&](const auto& one) {
    return timeline.parameters[one.parameter].layer == layer &&
           one.row->name.compare(0, module, row.name, 0, module) == 0;
  };
  while (at != group.begin() && is_sibling(*std::prev(at))) --at;
  return at;
}

}  // namespace

std::vector<ParameterGroup> trained_groups(const Inventory& inventory, const Timeline& timeline,
                                           const LoopHabits& habits) {
  ParameterGroup decaying;
  ParameterGroup rest;
  for (std::size_t i = 0; i < timeline.parameters.size(); ++i) {
    const TensorPlace& place = timeline.parameters[i];
    const ParameterTensor& row = inventory.parameters[place.row];
    if (!row.trainable) continue;
    const bool decays = habits.decays != nullptr && habits.decays(row);
    ParameterGroup& group = decays ? decaying : rest;
    group.insert(place_in(group, timeline, row, place.layer),
                 {static_cast<std::uint32_t>(i), place.elements, &row});
  }
  return {std::move(decaying), std::move(rest)};
}

}  // namespace memest
