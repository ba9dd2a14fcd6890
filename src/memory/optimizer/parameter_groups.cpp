#include "memory/optimizer/parameter_groups.hpp"

#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace memest {
namespace {

/// Parameters of a module that has submodules too.
constexpr std::array<std::string_view, 3> kOwnOfModules = {".sinks", ".class_embedding",
                                                           ".mm_input_projection_weight"};

/// Where the name of its module ends that `name` is the own parameter of, beside submodules'.
std::size_t end_of_module(std::string_view name) {
  for (const std::string_view own : kOwnOfModules) {
    if (name.ends_with(own)) return name.size() - own.size();
  }
  return std::string_view::npos;
}

/// Where `row` of layer `layer` stands in the order of Module.parameters(), which has a module's
/// own before its submodules', which the placement's order has not.
ParameterGroup::iterator place_in(ParameterGroup& group, const Timeline& timeline,
                                  const ParameterTensor& row, std::int64_t layer) {
  auto at = group.end();
  const std::size_t module = end_of_module(row.name);
  if (module == std::string::npos) return at;
  const auto is_sibling = [&](const auto& one) {
    return timeline.parameters[one.parameter].layer == layer &&
           one.row->name.compare(0, module, row.name, 0, module) == 0;
  };
  while (at != group.begin() && is_sibling(*std::prev(at))) --at;
  return at;
}

}  // namespace

ParameterGroup parameters_in_order(const Inventory& inventory, const Timeline& timeline) {
  ParameterGroup group;
  for (std::size_t i = 0; i < timeline.parameters.size(); ++i) {
    const TensorPlace& place = timeline.parameters[i];
    const ParameterTensor& row = inventory.parameters[place.row];
    if (!row.wants_gradient()) continue;
    group.insert(place_in(group, timeline, row, place.layer),
                 {static_cast<std::uint32_t>(i), place.elements, &row});
  }
  return group;
}

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
