
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "reader/frameworks/rules.hpp"
#include "reader/frameworks/unrecorded.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

// transformers 5.17, trainer.py: Trainer.compute_loss drops the outputs, _run_epoch calls
// model.zero_grad() with its default, and __init__ sets config.use_cache to TrainingArguments',
// which is False.
constexpr std::array kTrainerRules = {
    Rule{"training", "hold_outputs", [](const Job& job) { return job.training->hold_outputs; },
         "the Trainer drops the model's outputs after the loss",
         "leave 'hold_outputs' out, or set 'loop' to plain"},
    Rule{"training", "zero_grad",
         [](const Job& job) { return job.training->zero_grad == ZeroGrad::zeros; },
         "the Trainer frees the gradients after a step",
         "leave 'zero_grad' out, or set 'loop' to plain"},
    Rule{"training", "use_cache", [](const Job& job) { return job.training->use_cache; },
         "the Trainer switches the model's cache off",
         "leave 'use_cache' out, or set 'loop' to plain"},
    Rule{"training", "loss",
         [](const Job& job) { return job.training->loss == TrainingLoss::sum_of_logits; },
         "the Trainer takes the model's own loss", "leave 'loss' out, or set 'loop' to plain"},
};

// TRL's SFTTrainer and DPOTrainer (trl 1.16), around that Trainer: beside what no run of it was
// recorded.
constexpr std::array<std::string_view, 5> kRecordedPrecisions = {
    "amp-bf16", "bf16-autocast", "bf16", "fp32", "accelerate-fsdp2-bf16"};

constexpr std::array<std::string_view, 2> kHeads = {"lm_head", "embed_out"};

bool in_deepspeed(const Job& job) { return shards_by<DeepSpeedZero>(job); }

/// One GPU without any sharding, whole replicas alone, FSDP2, or DeepSpeed's ZeRO.
bool divides_as_recorded(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  if (parallelism.ranks() != parallelism.data) return false;
  if (shards_by<ReplicasOfDdp>(job) || shards_by<Unsharded>(job)) return true;
  if (parallelism.data == 1) return false;
  if (in_deepspeed(job)) return true;
  if (!shards_by<RowShards>(job) || parallelism.shard_ranks() != parallelism.data) return false;
  // prepare_fsdp takes a reference from where it is, which its shards are not sent to.
  const bool prefers = row_of(job.training->implementation.loop).prefers;
  return !prefers || parallelism.fsdp->init.value_or(ShardInit::host) == ShardInit::host;
}

constexpr NotRecorded kNotUnderTrl[] = {
    {[](const Job& job) { return !job.training.has_value(); }, "without training", ""},
    {[](const Job& job) { return !divides_as_recorded(job); },
     "over several GPUs in another way than as whole replicas (DistributedDataParallel)",
     "leave 'fsdp', 'zero', 'tensor', 'pipeline' and 'context' out"},
    {[](const Job& job) { return in_deepspeed(job) && job.training->recipe.name != "mixed"; },
     "in DeepSpeed under this precision", "use mixed"},
    {[](const Job& job) {
       return !in_deepspeed(job) &&
              std::ranges::find(kRecordedPrecisions, job.training->recipe.name) ==
                  kRecordedPrecisions.end();
     },
     "under this precision", "use amp-bf16, bf16-autocast, bf16 or fp32"},
    {[](const Job& job) {
       const Recompute& recompute = job.training->recompute;
       const auto* full = std::get_if<FullRecompute>(&recompute);
       return (full != nullptr && full->reentrant) ||
              (full == nullptr && !std::holds_alternative<NoRecompute>(recompute));
     },
     "beside other recompute than of whole layers", "use 'recompute: full' or none"},
    kUnderOtherReleases,
    {[](const Job& job) {
       const auto& teacher = job.training->teacher;
       return teacher != nullptr && teacher->use == TeacherUse::distillation;
     },
     "beside a teacher", "leave 'teacher' out"},
    {[](const Job& job) { return job.model.vision.has_value(); }, "with images", ""},
    {[](const Job& job) { return job.model.experts() != nullptr; }, "in a mixture of experts", ""},
    {[](const Job& job) { return job.model.low_rank || job.model.shared_layers; },
     "beside a compressed model", "leave 'compression' out"},
    {[](const Job& job) { return job.model.adapter && !job.model.adapter->whole_modules.empty(); },
     "beside modules trained in full", "leave 'modules_to_save' out"},
    // Its log-probabilities read lm_head.weight alone.
    {[](const Job& job) {
       return job.model.adapter && std::ranges::any_of(kHeads, [&](std::string_view head) {
                return adapts(*job.model.adapter, head);
              });
     },
     "with an adapter of the output head", "leave it out of 'targets'"},
};

/// TRL keeps adapters over codes in bf16 whatever peft has made of them.
void check_adapter_type(const Value& training, const Job& job, Diagnostics& diagnostics) {
  const Value* adapter = training.find("adapter");
  if (adapter == nullptr || !job.model.quantized || !job.model.adapter) return;
  for (const Member& kind : adapter->members) {
    const Value* written = kind.value.find("dtype");
    if (written == nullptr) continue;
    const DType weights = job.training->recipe.weights;
    const DType asked = written->text == "fp32" ? DType::fp32 : weights;
    if (asked == job.model.adapter->dtype) continue;
    diagnostics.push_back(error_at(
        written->span, "TRL casts adapters over quantised weights to bf16", "leave 'dtype' out"));
  }
}

/// The first token is no target.
void check_completion(const Value& training, const Job& job, Diagnostics& diagnostics) {
  const Value* written = training.find("completion_len");
  if (written == nullptr) return;
  if (!row_of(job.training->implementation.loop).takes_tiles) {
    diagnostics.push_back(error_at(
        written->span, "this loop makes the logits of every token, whichever of them have a loss",
        "leave 'completion_len' out, or write 'implementation: {loop: sft}'"));
  } else if (job.training->completion_len >= job.training->seq_len) {
    diagnostics.push_back(
        error_at(written->span,
                 "the first of a sequence's tokens has no loss: of " +
                     std::to_string(job.training->seq_len) + " at most " +
                     std::to_string(job.training->seq_len - 1) + " have one",
                 "leave 'completion_len' out for a loss of all that can have one"));
  }
}

/// transformers hands where documents begin to flash_attn_varlen_func; other attention makes a mask
/// of all tokens by all tokens from position ids.
void check_padding_free(const Value& training, const Job& job, Diagnostics& diagnostics) {
  if (!job.training->padding_free) return;
  const Value& written = *training.find("padding_free");
  const auto error = [&](std::string message, std::string hint) {
    diagnostics.push_back(error_at(written.span, std::move(message), std::move(hint)));
  };
  const Implementation& implementation = job.training->implementation;
  const LoopRow& loop = row_of(implementation.loop);
  if (!loop.accelerate || loop.prefers) {
    error("the sequences of a batch lie as one under the Trainer and SFTTrainer alone",
          "leave 'padding_free' out, or write 'implementation: {loop: sft}'");
  } else if (implementation.attention != AttentionKernel::flash_2) {
    error("sequences that lie as one need attention that tells documents apart by their lengths",
          "set 'implementation.attention' to flash-2");
  } else if (job.training->padding_free->documents > job.training->seq_len) {
    const std::string tokens = std::to_string(job.training->seq_len);
    error("a sequence of " + tokens + " tokens holds no more documents than that",
          "write at most " + tokens);
  }
}

}  // namespace

void check_trainer(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || !row_of(job.training->implementation.loop).accelerate) return;
  check_rules(kTrainerRules, root, job, diagnostics);
}

void check_trl(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (job.training) check_completion(*root.find("training"), job, diagnostics);
  if (job.training) check_padding_free(*root.find("training"), job, diagnostics);
  const ForwardSpec* forward = job.forward();
  if (forward == nullptr || !row_of(forward->implementation.loop).takes_tiles) return;
  if (job.training) check_adapter_type(*root.find("training"), job, diagnostics);
  const LoopRow& loop = row_of(forward->implementation.loop);
  const Value& section = *root.find(job.training ? "training" : "inference");
  const Value& written = *section.find("implementation")->find("loop");
  if (loop.prefers && forward->micro_batch % 2 != 0) {
    diagnostics.push_back(error_at(written.span, "a batch of pairs has an even number of sequences",
                                   "set 'micro_batch' to twice per_device_train_batch_size"));
  }
  constexpr Beside kRecorded[] = {Beside::other_program, Beside::other_loop, Beside::several_gpus};
  refuse_unrecorded(
      {.noun = loop.title.data(), .key = "loop", .written = written, .recorded = kRecorded},
      kNotUnderTrl, job, diagnostics);
}

}  // namespace memest
