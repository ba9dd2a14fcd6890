// nanotron's LlamaForTraining as its trainer makes it.
#include "graph/lower/nanotron/nanotron.hpp"

#include "graph/lower/programs/programs.hpp"
#include "graph/parameters/nanotron_parameters.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// helpers.py, _vocab_size_with_padding: make_vocab_size_divisible_by is 1, so that the
/// tensor-parallel ranks alone round up.
ModelSpec with_vocabulary_of_ranks(ModelSpec model, std::int64_t ranks) {
  auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (decoder == nullptr) return model;
  const std::int64_t rows = checked_add(decoder->vocab_size, ranks - 1) / ranks;
  decoder->vocab_size = checked_multiply(rows, ranks);
  return model;
}

}  // namespace

std::variant<Graph, Unavailable> lower_nanotron(const ModelSpec& model,
                                                const LoweringPolicy& policy) {
  const ModelSpec padded = with_vocabulary_of_ranks(model, policy.tensor);
  auto result = lower_llama_of_nanotron(padded, policy);
  if (auto* graph = std::get_if<Graph>(&result)) {
    graph->parameters = parameters_of_nanotron(std::get<DecoderSpec>(padded.architecture), policy);
  }
  return result;
}

}  // namespace memest
