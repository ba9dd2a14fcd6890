#include "memest/symbolic/symbol.hpp"

namespace memest {
namespace {

struct Legend {
  std::string_view letter;
  std::string_view meaning;
};

constexpr std::array<Legend, kSymbolCount> kLegend = {{
    {"b", "micro-batch: sequences a GPU and micro-step"},
    {"s", "sequence length in tokens"},
    {"h", "hidden size"},
    {"a", "query heads"},
    {"k", "key/value heads"},
    {"d", "head size"},
    {"f", "feed-forward size"},
    {"v", "vocabulary size"},
    {"L", "layers"},
    {"E", "experts"},
    {"K", "experts a token (top-K)"},
    {"g", "feed-forward size of an expert"},
    {"r", "rotated channels of a head"},
    {"P", "rows of the position table"},
    {"s₈", "sequence length rounded up to 8"},
    {"s₃₂", "sequence length rounded up to 32"},
    {"s₆₄", "sequence length rounded up to 64"},
    {"s₁₂₈", "sequence length rounded up to 128"},
    {"m", "micro-batches a step"},
    {"D", "data-parallel degree"},
    {"t", "tensor-parallel degree"},
    {"p", "pipeline degree"},
    {"w", "micro-steps of a pipeline stage in flight: their backward is still to come"},
    {"c", "context-parallel degree"},
    {"x", "expert-parallel degree"},
    {"Φ", "parameters"},
    {"Φt", "trainable parameters"},
    {"Φx", "parameters of the experts of one expert-parallel rank"},
    {"Φw", "weights of matmuls, cast to the compute type under autocast"},
    {"Φe", "parameters of the input embedding"},
    {"Φu", "parameters of the largest sharding unit"},
    {"Φ1", "elements of the largest parameter tensor"},
    {"n", "number of parameter tensors"},
    {"B", "elements of a communication bucket"},
    {"S", "tokens whose keys and values a pass over one token reads"},
}};

}  // namespace

std::string_view letter(Symbol symbol) { return kLegend[static_cast<std::size_t>(symbol)].letter; }

std::string_view meaning(Symbol symbol) {
  return kLegend[static_cast<std::size_t>(symbol)].meaning;
}

}  // namespace memest
