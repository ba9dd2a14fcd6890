#include "memory/sharding/parameter_places.hpp"

#include <cstddef>
#include <string>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

class PlaceFinder {
 public:
  PlaceFinder(const Graph& graph, const ForwardOrder& order, const Timeline& timeline)
      : graph_(graph), order_(order), timeline_(timeline), taken_(timeline.parameters.size()) {
    for (const TensorPlace& place : timeline.parameters) {
      knows_layers_ = knows_layers_ || place.layer > 0;
    }
  }

  std::vector<std::uint32_t> find() && {
    std::vector<std::uint32_t> places;
    for (const ParameterUse& use : order_.parameters()) {
      std::size_t found = find(use, true);
      if (found == taken_.size()) found = find(use, false);
      expect(found < taken_.size(), "every parameter that a block reads is one of the model's");
      taken_[found] = true;
      places.push_back(static_cast<std::uint32_t>(found));
    }
    return places;
  }

 private:
  /// The first tensor of the use's layer and size that no other use has, and of its name where
  /// `named` asks for it. A plain list's tensors are of no layer, and stand in the order of their
  /// uses.
  [[nodiscard]] std::size_t find(const ParameterUse& use, bool named) const {
    const Tensor& tensor =
        graph_.blocks[order_.instances()[use.instance].block].tensors[use.tensor];
    const std::string name = std::string(tensor.op) + "." + std::string(tensor.name);
    const std::int64_t layer = timeline_.places[use.instance].layer;
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      const TensorPlace& place = timeline_.parameters[i];
      const bool elsewhere = knows_layers_ && place.layer != layer;
      if (taken_[i] || elsewhere || place.elements != use.elements) continue;
      if (!named || graph_.parameters.parameters[place.row].name.ends_with(name)) return i;
    }
    return taken_.size();
  }

  const Graph& graph_;
  const ForwardOrder& order_;
  const Timeline& timeline_;
  std::vector<bool> taken_;
  bool knows_layers_ = false;
};

}  // namespace

std::vector<std::uint32_t> parameter_places(const Graph& graph, const ForwardOrder& order,
                                            const Timeline& timeline) {
  return PlaceFinder(graph, order, timeline).find();
}

}  // namespace memest
