// Megatron-core 0.16.1's GPTModel as its training program, or its library alone, makes it.
#include "graph/lower/megatron/megatron.hpp"

#include "graph/lower/programs/programs.hpp"
#include "graph/parameters/adapter_parameters.hpp"
#include "graph/parameters/megatron_parameters.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Megatron's training program rounds the vocabulary up for its shards
/// (make_vocab_size_divisible_by); its library alone takes it as it is.
ModelSpec with_padded_vocabulary(ModelSpec model, const LoweringPolicy& policy) {
  constexpr std::int64_t kMultiple = 128;
  auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (decoder == nullptr || policy.implementation.layers == LayerSpec::local) return model;
  // vocab_size_with_padding: make_vocab_size_divisible_by · tensor_model_parallel_size. 50 257 over
  // 2 ranks: 50 432.
  const std::int64_t multiple = checked_multiply(kMultiple, policy.tensor);
  const std::int64_t shards = checked_add(decoder->vocab_size, multiple - 1) / multiple;
  decoder->vocab_size = checked_multiply(shards, multiple);
  return model;
}

}  // namespace

std::variant<Graph, Unavailable> lower_megatron(const ModelSpec& model,
                                                const LoweringPolicy& policy) {
  const ModelSpec padded = with_padded_vocabulary(model, policy);
  auto result = lower_gpt_model(padded, policy);
  if (auto* graph = std::get_if<Graph>(&result)) {
    graph->parameters = parameters_of_megatron(std::get<DecoderSpec>(padded.architecture), policy);
    if (padded.adapter) {
      graph->parameters =
          with_parallel_adapter(graph->parameters, {*padded.adapter, policy.tensor});
    }
  }
  return result;
}

}  // namespace memest
