#include "memest/graph/lower.hpp"

#include "graph/lower/programs/programs.hpp"
#include "graph/lower/vision/vision.hpp"
#include "memest/diag/expect.hpp"

namespace memest {
namespace {

std::variant<Graph, Unavailable> lower_decoder_model(const ModelSpec& model,
                                                     const LoweringPolicy& policy) {
  if (model.vision) {
    if (auto refused = vision_refusal(model, policy)) return *std::move(refused);
  }
  switch (policy.implementation.framework) {
    case Framework::transformers:
      return lower_transformers(model, policy);
    case Framework::torchtitan:
      return lower_torchtitan(model, policy);
    case Framework::torchtune:
      return lower_torchtune(model, policy);
    case Framework::litgpt:
      return lower_litgpt(model, policy);
    case Framework::megatron:
      return lower_megatron(model, policy);
    case Framework::nanotron:
      return lower_nanotron(model, policy);
    case Framework::nanogpt:
      return lower_nanogpt(model, policy);
    case Framework::textbook:
      return lower_textbook(model, policy);
    case Framework::plain:
      return Unavailable{
          "implementation plain is for layer lists; a decoder needs transformers, nanogpt or "
          "textbook"};
  }
  unreachable("every framework lowers decoders or says why not");
}

std::variant<Graph, Unavailable> lowered(const ModelSpec& model, const LoweringPolicy& policy) {
  if (const auto* decoder = std::get_if<DecoderSpec>(&model.architecture)) {
    if (decoder->unfollowed.empty()) return lower_decoder_model(model, policy);
    return Unavailable{"memory and time of a model with '" + decoder->unfollowed.front() +
                       "' are not available yet; parameter counts are"};
  }
  if (std::holds_alternative<LayerList>(model.architecture)) return lower_layer_list(model, policy);
  return Unavailable{"memory and time of this family are not available yet; parameter counts are"};
}

}  // namespace

std::variant<Graph, Unavailable> lower(const ModelSpec& model, const LoweringPolicy& policy) {
  std::variant<Graph, Unavailable> result = lowered(model, policy);
  if (auto* graph = std::get_if<Graph>(&result)) {
    for (BufferTensor& buffer : graph->parameters.buffers) {
      if (buffer.as_weights) buffer.dtype = policy.stored.value_or(policy.weights);
    }
  }
  return result;
}

}  // namespace memest
