#include "memory/sharding/flat_unit_layout.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "memest/diag/expect.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/sharding/parameter_places.hpp"

namespace memest {
namespace {

/// The op of a block that reads the parameter.
std::uint32_t reader_of(const Block& block, TensorId parameter) {
  for (std::uint32_t op = 0; op < block.ops.size(); ++op) {
    const auto& inputs = block.ops[op].inputs;
    if (std::find(inputs.begin(), inputs.end(), parameter) != inputs.end()) return op;
  }
  unreachable("a parameter is read by an op of its block");
}

class ModuleSplitter {
 public:
  ModuleSplitter(const Graph& graph, const ForwardOrder& order, const Timeline& timeline)
      : graph_(graph),
        order_(order),
        timeline_(timeline),
        places_(parameter_places(graph, order, timeline)) {}

  /// The unit behind those of its trained modules, which are taken out of it.
  std::vector<ShardedUnit> split(ShardedUnit unit) const {
    std::vector<ShardedUnit> units;
    const std::vector<std::uint32_t> uses = unit.uses;
    for (const std::uint32_t use : uses) {
      const std::uint32_t parameter = places_[use];
      if (!graph_.parameters.parameters[timeline_.parameters[parameter].row].trainable) continue;
      const ParameterUse& read = order_.parameters()[use];
      const Block& block = graph_.blocks[order_.instances()[read.instance].block];
      ShardedUnit module = unit;
      module.op = reader_of(block, read.tensor);
      module.parameters = {parameter};
      module.uses = {use};
      units.push_back(std::move(module));
      std::erase(unit.parameters, parameter);
      std::erase(unit.uses, use);
    }
    std::ranges::sort(units, {}, &ShardedUnit::op);
    units.push_back(std::move(unit));
    return units;
  }

 private:
  const Graph& graph_;
  const ForwardOrder& order_;
  const Timeline& timeline_;
  std::vector<std::uint32_t> places_;  // of each use
};

}  // namespace

std::vector<ShardedUnit> flat_units(const Job& job, const Graph& graph, const ForwardOrder& order,
                                    const Timeline& timeline) {
  std::vector<ShardedUnit> units = sharded_units(job, graph.parameters, order, timeline);
  if (!std::get<FlatShards>(sharding_of(job)).trained_apart) return units;
  const ModuleSplitter splitter(graph, order, timeline);
  std::vector<ShardedUnit> result;
  for (ShardedUnit& unit : units) {
    for (ShardedUnit& part : splitter.split(std::move(unit))) result.push_back(std::move(part));
  }
  return result;
}

}  // namespace memest
