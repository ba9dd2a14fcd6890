// transformers 5.17: models/MODEL_TYPE/modeling_MODEL_TYPE.py; families differ by their habits.
#include "graph/lower/attention/attention.hpp"
#include "graph/lower/programs/decoder.hpp"
#include "graph/lower/programs/programs.hpp"

namespace memest {
namespace {

constexpr Habits own_habits(const Habits& family) { return family; }

constexpr DecoderProgram kTransformersProgram = {.has = {.latent_attention = true,
                                                         .experts = true,
                                                         .inference = true,
                                                         .key_value_cache = true,
                                                         .sum_of_logits = true,
                                                         .adapters = true,
                                                         .low_rank = true,
                                                         .quantized = true,
                                                         .flash_attn = true},
                                                 .habits = own_habits,
                                                 // LlamaForCausalLM.forward holds `outputs` and
                                                 // `hidden_states` while lm_head and the loss run;
                                                 // LlamaModel.forward's own names end before.
                                                 .names_results = true,
                                                 .locals_end = LocalsEnd::before_head,
                                                 .position_ids = PositionIds::of_family,
                                                 .passes_masks = true,
                                                 .layer_arguments = LayerArguments::of_family,
                                                 .library_functions = true,
                                                 .feed_forward_module = true,
                                                 // activations.py: ACT2CLS: gelu_new, gelu_fast,
                                                 // quick_gelu and relu2 are written op by op.
                                                 .activation = ActivationWriting::python,
                                                 .sdpa = resolve_sdpa,
                                                 // loss_utils.py: ForCausalLMLoss.
                                                 .targets = Targets::shifted_copy};

/// Traced as a whole: no name of Python's holds a tensor.
constexpr DecoderProgram traced(DecoderProgram program) {
  program.names_results = false;
  program.layer_arguments = LayerArguments::none;
  return program;
}
constexpr DecoderProgram kTracedProgram = traced(kTransformersProgram);

}  // namespace

std::variant<Graph, Unavailable> lower_transformers(const ModelSpec& model,
                                                    const LoweringPolicy& policy) {
  const bool whole = policy.implementation.compile == CompileScope::whole;
  return lower_decoder(model, policy, whole ? kTracedProgram : kTransformersProgram);
}

}  // namespace memest
