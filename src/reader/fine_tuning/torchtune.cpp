#include <array>
#include <string>
#include <variant>
#include <vector>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "reader/frameworks/rules.hpp"

namespace memest {
namespace {

/// set_activation_checkpointing wraps each layer without reentrance, or none.
bool checkpoints_layers(const Recompute& recompute) {
  return recomputes_each_layer(recompute) && !is_reentrant(recompute);
}

bool adapts_by_dora(const Job& job) {
  return job.model.adapter && job.model.adapter->kind == AdapterKind::dora;
}

bool has_own_loss(const Implementation& implementation) {
  return implementation.loss == LossKernel::chunked || implementation.loss == LossKernel::upcast;
}

/// The linear layers that quantize_base leaves in the model's type: the output head, which a tied
/// model has not, and whatever is not adapted in Qwen2's builders (lora_qwen2_self_attention(),
/// qwen2_mlp()).
std::vector<std::string> whole_modules(const ModelSpec& model) {
  const auto* const decoder = std::get_if<DecoderSpec>(&model.architecture);
  const auto* const attention =
      decoder == nullptr ? nullptr : std::get_if<SoftmaxAttention>(&decoder->attention);
  if (attention == nullptr) return {};
  std::vector<std::string> whole;
  if (!decoder->tied_embeddings) whole.emplace_back("output");
  const bool is_of_qwen2 = attention->q_bias;
  if (!is_of_qwen2 || !model.adapter) return whole;
  for (const char* module : {"q_proj", "k_proj", "v_proj", "output_proj", "w1", "w2", "w3"}) {
    if (!adapts(*model.adapter, module)) whole.emplace_back(module);
  }
  return whole;
}

/// Jobs that the recipes full_finetune_* and lora_finetune_* of torchtune (or memest with them)
/// refuse.
constexpr std::array kTorchtuneRules = {
    Rule{"training", "precision",
         [](const Job& job) {
           const std::string_view name = job.training->recipe.name;
           return name != "bf16" && name != "fp32";
         },
         "torchtune's dtype is that of weights, gradients and states alike, bf16 or fp32",
         "set 'precision' to bf16 or fp32"},
    Rule{"training", "recompute",
         [](const Job& job) { return !checkpoints_layers(job.training->recompute); },
         "torchtune's enable_activation_checkpointing is around every layer by itself: its "
         "selective kinds are not available yet",
         "set 'recompute' to full or none"},
    Rule{"training", "implementation",
         [](const Job& job) { return !has_own_loss(job.training->implementation); },
         "torchtune's losses are CEWithChunkedOutputLoss and CrossEntropyLoss",
         "set 'loss' to chunked or upcast"},
    Rule{"training", "loss",
         [](const Job& job) { return job.training->loss == TrainingLoss::sum_of_logits; },
         "torchtune's recipes take a cross-entropy", "leave 'loss' out"},
    Rule{"training", "hold_outputs", [](const Job& job) { return job.training->hold_outputs; },
         "torchtune's recipes drop the model's outputs after the loss", "leave 'hold_outputs' out"},
    Rule{"training", "zero_grad",
         [](const Job& job) { return job.training->zero_grad == ZeroGrad::zeros; },
         "torchtune's recipes free the gradients after a step", "leave 'zero_grad' out"},
    Rule{"training", "use_cache", [](const Job& job) { return job.training->use_cache; },
         "torchtune trains without a key-value cache", "leave 'use_cache' out"},
    Rule{"training", "ema", [](const Job& job) { return job.training->averages_weights; },
         "torchtune's recipes keep no moving average of the weights", "leave 'ema' out"},
    Rule{"training", "adapter",
         [](const Job& job) { return adapts_otherwise_than_by_lora(job) && !adapts_by_dora(job); },
         "torchtune's adapters are LoRA and DoRA", "set 'adapter' to lora or dora"},
    Rule{"training", "adapter",
         [](const Job& job) { return adapts_by_dora(job) && job.parallelism.ranks() > 1; },
         "torchtune's DoRA is available on one GPU", "set 'adapter' to lora"},
    Rule{"training", "adapter",
         [](const Job& job) {
           return job.model.adapter && job.model.adapter->dtype != job.training->recipe.weights;
         },
         "torchtune's LoRA has the model's type", "set 'dtype' of the adapter to model"},
    Rule{"compression", "quantize",
         [](const Job& job) {
           return job.model.quantized && !row_of(job.model.quantized->format).of_torchao();
         },
         "torchtune's codes are torchao's NF4 tensors",
         "write 'qlora', or set 'weights' to torchao-nf4"},
    Rule{"compression", "quantize",
         [](const Job& job) {
           return job.model.quantized &&
                  job.model.quantized->skip_modules != whole_modules(job.model);
         },
         "torchtune's builders say which layers stay whole", "leave 'skip_modules' out"},
    Rule{"parallelism", "offload",
         [](const Job& job) { return job.model.quantized && job.parallelism.offload.any(); },
         "torchao's NF4 tensors on the host are not available yet", "leave 'offload' out"},
    Rule{"training", "optimizer",
         [](const Job& job) {
           return job.training->steps_in_backward &&
                  (job.training->gradient_accumulation > 1 || job.training->clip_gradients);
         },
         "torchtune's optimizer in the backward takes one micro-step, and clips nothing",
         "leave 'in_backward', or 'gradient_accumulation' and 'clip_gradients', out"},
    Rule{"training", "optimizer",
         [](const Job& job) {
           return job.training->steps_in_backward &&
                  (job.model.adapter || job.parallelism.ranks() > 1);
         },
         "torchtune's optimizer in the backward is available for a whole model on one GPU",
         "leave 'in_backward' out"},
    Rule{"parallelism", "data",
         [](const Job& job) { return job.parallelism.ranks() > 1 && !shards_by<RowShards>(job); },
         "torchtune's distributed recipes shard with FSDP2 over all ranks", "set 'zero' to 3"},
    Rule{"parallelism", "replicas",
         [](const Job& job) {
           return shards_by<RowShards>(job) &&
                  job.parallelism.shard_ranks() != job.parallelism.data;
         },
         "torchtune's distributed recipes shard over all ranks", "leave the replicas out"},
};

}  // namespace

void settle_torchao_codes(ModelSpec& model) {
  const bool coded = model.quantized && row_of(model.quantized->format).of_torchao();
  if (!coded || model.quantized->skip_modules != QuantizedWeights{}.skip_modules) return;
  model.quantized->skip_modules = whole_modules(model);
}

void check_torchtune(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || job.training->implementation.framework != Framework::torchtune) return;
  check_rules(kTorchtuneRules, root, job, diagnostics);
}

}  // namespace memest
