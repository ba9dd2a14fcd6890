#include "reader/adapters/adapted_recipe.hpp"

#include "memest/spec/framework.hpp"
#include "reader/adapters/adapter.hpp"
#include "reader/frameworks/compression.hpp"
#include "reader/frameworks/megatron.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

bool shards_in_deepspeed(const Parallelism& parallelism, const Implementation& implementation) {
  return parallelism.zero != ZeroStage::none && !parallelism.fsdp &&
         row_of(implementation.framework).sharer == Sharer::deepspeed;
}

/// Whether the model's linear layers are kept as codes.
bool is_over_codes(const Value& training, const ModelSpec* model) {
  return find_qlora(training) != nullptr || (model != nullptr && model->quantized);
}

/// Only what requires a gradient gets one, and AdamW's exp_avg is zeros_like(p).
void train_in(DType type, Recipe& recipe) {
  recipe.trained = recipe.gradients = recipe.states = type;
}

}  // namespace

std::optional<Adapter> adapt_recipe(const Value& training, const TrainingContext& context,
                                    TrainingSpec& spec, Diagnostics& diagnostics) {
  Recipe& recipe = spec.recipe;
  const Implementation& implementation = spec.implementation;
  const bool parallel = adapts_parallel_layers(implementation);
  const bool in_type = row_of(implementation.framework).adapters_in_type;
  std::optional<Adapter> adapter =
      read_adapter(training, recipe.weights, parallel, in_type ? "model" : "fp32");
  if (!adapter || parallel) return adapter;
  // Job::settle_adapter() says the types.
  if (recipe.master && shards_in_deepspeed(context.parallelism, implementation)) return adapter;
  const bool gathered = recipe.gathered_units && !context.parallelism.fsdp;
  if (recipe.master || gathered || recipe.fp8_weight_copies > 0) {
    diagnostics.push_back(unavailable_at(training.find("adapter")->span,
                                         "an adapter under the precision " + quote(recipe.name),
                                         "use fp32, bf16, fp16, amp-bf16, amp-fp16 or "
                                         "bf16-autocast"));
    return adapter;
  }
  const bool over_codes = is_over_codes(training, context.model);
  if (over_codes && row_of(implementation.loop).takes_tiles) {
    // trl 1.16, sft_trainer.py, dpo_trainer.py: param.data.to(torch.bfloat16) of each that
    // requires a gradient beside a base in 4 bits, which peft has widened.
    adapter->dtype = DType::bf16;
    adapter->recast = true;
  }
  // fsdp2_prepare_model: param.data.to(torch.float32) of each that requires a gradient, but in a
  // model that has codes (model_has_params4bit).
  if (recipe.gathered_units && !over_codes) adapter->dtype = DType::fp32;
  if (spec.recipe_of_fsdp) {
    train_in(over_codes ? adapter->dtype : DType::fp32, *spec.recipe_of_fsdp);
  }
  train_in(adapter->dtype, recipe);
  return adapter;
}

}  // namespace memest
