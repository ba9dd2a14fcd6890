#include "memest/graph/lower.hpp"

#include <utility>

#include "decoder.hpp"
#include "plain.hpp"

namespace memest {

std::variant<Graph, Unavailable> lower(const ModelSpec& model, const LoweringPolicy& policy) {
  std::variant<Graph, Unavailable> result =
      Unavailable{"memory and time of this family are not available yet; parameter counts are"};
  if (const auto* decoder = std::get_if<DecoderSpec>(&model.architecture)) {
    result = lower_decoder(*decoder, model.model_type, policy);
  } else if (const auto* layers = std::get_if<LayerList>(&model.architecture)) {
    result = lower_layers(*layers, policy);
  }
  if (auto* graph = std::get_if<Graph>(&result)) {
    graph->parameters = parameters_of(model, policy.implementation.framework);
  }
  return result;
}

}  // namespace memest
