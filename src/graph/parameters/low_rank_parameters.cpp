#include "graph/parameters/low_rank_parameters.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/parameters/rewritten.hpp"
#include "memest/spec/adapter.hpp"

namespace memest {
namespace {

/// torch.nn.Linear's weights of both layers of the Sequential, or the bias of the second.
void add_factors(InventoryBuilder& result, const ParameterTensor& tensor, std::int64_t rank,
                 bool stored_in_out) {
  const std::size_t dot = tensor.name.rfind('.');
  const auto named = [&](const char* index) {
    ParameterTensor factor = tensor;
    factor.name.insert(dot, index);
    return factor;
  };
  ParameterTensor second = named(".1");
  if (tensor.role == ParameterRole::matmul) {
    ParameterTensor first = named(".0");
    const auto [front, back] = std::pair(tensor.shape.front(), tensor.shape.back());
    first.shape = {rank, stored_in_out ? front : back};
    result.add(std::move(first));
    second.shape = {stored_in_out ? back : front, rank};
  }
  result.add(std::move(second));
}

}  // namespace

bool factorises(const LowRank& low_rank, std::string_view module) {
  return std::ranges::any_of(low_rank.modules,
                             [&](const std::string& name) { return is_named(module, name); });
}

Inventory with_low_rank(const Inventory& inventory, const LowRank& low_rank, bool stored_in_out) {
  const auto write = [&](InventoryBuilder& result, const std::vector<PlacementStep>& steps) {
    for (const PlacementStep& step : steps) {
      if (step.buffer || !factorises(low_rank, module_of(inventory.parameters[step.row].name))) {
        add_as_they_are(result, inventory, step);
        continue;
      }
      ParameterTensor tensor = inventory.parameters[step.row];
      tensor.count = step.count;
      add_factors(result, tensor, low_rank.rank, stored_in_out);
    }
  };
  return rewritten(inventory, write);
}

}  // namespace memest
