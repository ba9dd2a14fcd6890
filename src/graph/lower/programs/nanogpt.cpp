// karpathy/nanoGPT's model.py under its train.py, and a GPT written by hand after it in other
// loops.
#include "graph/lower/attention/attention.hpp"
#include "graph/lower/programs/decoder.hpp"
#include "graph/lower/programs/programs.hpp"

namespace memest {
namespace {

/// nanoGPT has one matrix for queries, keys and values (CausalSelfAttention.c_attn), whatever the
/// spec says.
ModelSpec with_one_matrix(ModelSpec model) {
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  auto* attention = std::get_if<SoftmaxAttention>(&decoder.attention);
  if (attention != nullptr && attention->q_bias == attention->kv_bias &&
      attention->qk_norm != QkNorm::full_width) {
    attention->layout = QkvLayout::fused;
  }
  return model;
}

/// In one module and without names, but for attention's result (CausalSelfAttention.forward's `y`).
constexpr DecoderProgram kHandWritten = {.names_attention = true, .sdpa = resolve_sdpa};

/// GPT.forward takes the loss as well and names what it makes of the batch; layers are of modules.
/// train.py: X, Y = get_batch('train'); logits, loss = model(X, Y). GPT.forward begins with pos =
/// torch.arange(0, t) and ends with F.cross_entropy(logits.view(-1, V), targets.view(-1)).
constexpr DecoderProgram kModelPy = {.names_results = true,
                                     .locals_end = LocalsEnd::with_loss,
                                     .position_ids = PositionIds::counted_first,
                                     .names_attention = true,
                                     .feed_forward_module = true,
                                     .sdpa = resolve_sdpa,
                                     .targets = Targets::second_tensor};

/// Traced as a whole: no name of Python's holds a tensor.
constexpr DecoderProgram kTracedModelPy = {.sdpa = resolve_sdpa, .targets = Targets::second_tensor};

}  // namespace

std::variant<Graph, Unavailable> lower_nanogpt(const ModelSpec& model,
                                               const LoweringPolicy& policy) {
  const bool train_py = policy.implementation.loop == LoopKind::nanogpt;
  const bool traced = policy.implementation.compile == CompileScope::whole;
  const DecoderProgram& of_train_py = traced ? kTracedModelPy : kModelPy;
  return lower_decoder(with_one_matrix(model), policy, train_py ? of_train_py : kHandWritten);
}

}  // namespace memest
