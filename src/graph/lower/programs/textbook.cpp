// No program: the field's formulas, as papers write them.
#include "graph/lower/attention/attention.hpp"
#include "graph/lower/programs/decoder.hpp"
#include "graph/lower/programs/programs.hpp"

namespace memest {
namespace {

constexpr DecoderProgram kProgram = {
    .habits = as_formulas, .rotations = Rotations::in_formula, .sdpa = resolve_sdpa};

}  // namespace

std::variant<Graph, Unavailable> lower_textbook(const ModelSpec& model,
                                                const LoweringPolicy& policy) {
  return lower_decoder(model, policy, kProgram);
}

}  // namespace memest
