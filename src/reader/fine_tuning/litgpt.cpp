#include <array>
#include <string_view>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "reader/frameworks/rules.hpp"

namespace memest {
namespace {

bool is_gated(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  // A model that could not be read has no layers.
  if (decoder == nullptr || decoder->kinds.empty()) return false;
  const auto* dense = std::get_if<DenseFeedForward>(&decoder->kinds.front().feed_forward);
  return dense != nullptr && dense->gated;
}

/// lora_mlp adapts all of a feed-forward's layers.
bool adapts_part_of_mlp(const Job& job) {
  if (!job.model.adapter) return false;
  const auto adapted = [&](std::string_view name) { return adapts(*job.model.adapter, name); };
  const bool up = adapted("mlp.fc_2");
  return up != adapted("mlp.proj") || (is_gated(job) && up != adapted("mlp.fc_1"));
}

/// Jobs that litgpt's finetune_full and finetune_lora (or memest with them) refuse.
constexpr std::array kLitgptRules = {
    Rule{"training", "precision",
         [](const Job& job) {
           const std::string_view name = job.training->recipe.name;
           return name != "bf16" && name != "amp-bf16" && name != "fp32";
         },
         "litgpt's precisions are bf16-true, bf16-mixed and 32-true",
         "set 'precision' to bf16, amp-bf16 or fp32"},
    Rule{"training", "recompute",
         [](const Job& job) {
           const Recompute& recompute = job.training->recompute;
           return !recomputes_each_layer(recompute) || is_reentrant(recompute) ||
                  !leaves_recompute(job.training->implementation, job.parallelism.ranks(),
                                    recompute);
         },
         "litgpt's finetune recomputes every block on several GPUs, and none on one",
         "set 'recompute' to full on several GPUs, else to none"},
    Rule{"training", "implementation",
         [](const Job& job) { return job.training->implementation.loss != LossKernel::chunked; },
         "litgpt's loss is chunked_cross_entropy", "set 'loss' to chunked"},
    Rule{"training", "implementation",
         [](const Job& job) {
           return job.training->implementation.attention == AttentionKernel::eager;
         },
         "litgpt's attention is scaled_dot_product_attention", "leave 'attention' out"},
    Rule{"training", "implementation",
         [](const Job& job) { return job.training->implementation.loop != LoopKind::litgpt; },
         "litgpt's model is followed under its own finetune alone", "leave 'loop' out"},
    Rule{"training", "loss",
         [](const Job& job) { return job.training->loss == TrainingLoss::sum_of_logits; },
         "litgpt's finetune takes a cross-entropy", "leave 'loss' out"},
    Rule{"training", "zero_grad",
         [](const Job& job) { return job.training->zero_grad == ZeroGrad::zeros; },
         "litgpt's finetune frees the gradients after a step", "leave 'zero_grad' out"},
    Rule{"training", "clip_gradients", [](const Job& job) { return job.training->clip_gradients; },
         "litgpt's finetune clips no gradients (it does not support max_norm)",
         "leave 'clip_gradients' out"},
    Rule{"training", "use_cache", [](const Job& job) { return job.training->use_cache; },
         "litgpt trains without a key-value cache", "leave 'use_cache' out"},
    Rule{"training", "ema", [](const Job& job) { return job.training->averages_weights; },
         "litgpt's finetune keeps no moving average of the weights", "leave 'ema' out"},
    Rule{"training", "adapter", [](const Job& job) { return adapts_otherwise_than_by_lora(job); },
         "of litgpt's adapters LoRA is available", "set 'adapter' to lora"},
    Rule{"training", "adapter",
         [](const Job& job) {
           return job.model.adapter && job.model.adapter->dtype != job.training->recipe.weights;
         },
         "litgpt's LoRA has the model's type", "set 'dtype' of the adapter to model"},
    Rule{"training", "precision",
         [](const Job& job) { return job.model.quantized && job.training->recipe.autocast; },
         "litgpt takes no mixed precision beside quantised weights", "set 'precision' to bf16"},
    Rule{"training", "adapter",
         [](const Job& job) {
           return job.model.quantized && !row_of(job.model.quantized->format).in_params_4bit();
         },
         "of litgpt's quantised bases bnb.nf4, bnb.fp4 and those with -dq are available",
         "quantize to nf4 or fp4"},
    Rule{"training", "optimizer",
         [](const Job& job) {
           return job.model.quantized && job.training->optimizer.name != "paged-adamw";
         },
         "litgpt steps adapters of quantised weights with bitsandbytes' PagedAdamW",
         "set 'optimizer' to paged-adamw"},
    Rule{"training", "adapter", adapts_part_of_mlp,
         "litgpt's lora_mlp adapts all layers of a feed-forward",
         "name each of its layers, or none"},
    Rule{"training", "implementation",
         [](const Job& job) { return job.model.low_rank || job.model.shared_layers; },
         "litgpt has no factorised or shared layers", "leave 'compression' out"},
    Rule{"parallelism", "data",
         [](const Job& job) {
           return job.parallelism.ranks() > 1 && !shards_by<RowShards>(job) &&
                  !shards_by<FlatShards>(job);
         },
         "litgpt's finetune shards with FSDP over all ranks",
         "set 'fsdp: {version: 1}' or, of LoRA, 'fsdp: {version: 2}'"},
    Rule{"parallelism", "fsdp",
         [](const Job& job) { return !job.model.adapter && shards_by<RowShards>(job); },
         "litgpt's finetune_full shards with FSDP1", "set 'version' to 1"},
    Rule{"parallelism", "fsdp",
         [](const Job& job) { return job.model.adapter && shards_by<FlatShards>(job); },
         "litgpt's finetune_lora shards with FSDP2", "set 'version' to 2"},
    Rule{"parallelism", "fsdp",
         [](const Job& job) {
           return job.training->gradient_accumulation > 1 && shards_by<FlatShards>(job) &&
                  !job.parallelism.fsdp->no_sync;
         },
         "litgpt's finetune reduces gradients in a step's last micro-step",
         "set 'no_sync' to true"},
    Rule{"parallelism", "replicas",
         [](const Job& job) {
           return job.parallelism.fsdp && job.parallelism.shard_ranks() != job.parallelism.data;
         },
         "litgpt's finetune shards over all ranks", "leave the replicas out"},
    Rule{"training", "adapter",
         [](const Job& job) { return job.model.quantized && job.parallelism.ranks() > 1; },
         "litgpt refuses quantised weights on several GPUs", "leave 'parallelism' out"},
    Rule{"training", "precision",
         [](const Job& job) {
           const auto& precision = row_of(job.training->implementation.framework).sharded_precision;
           return job.parallelism.ranks() > 1 && job.training->recipe.name != precision;
         },
         "litgpt on several GPUs in another precision than bf16-true is not available yet",
         "set 'precision' to bf16"},
};

}  // namespace

void check_litgpt(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || job.training->implementation.framework != Framework::litgpt) return;
  check_rules(kLitgptRules, root, job, diagnostics);
}

}  // namespace memest
