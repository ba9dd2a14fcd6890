#include "memest/spec/job.hpp"

#include "memest/diag/expect.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/cost_split.hpp"

namespace memest {

SoftmaxAttention heads_of(const Attention& attention) {
  if (const auto* softmax = std::get_if<SoftmaxAttention>(&attention)) return *softmax;
  const auto& latent = std::get<LatentAttention>(attention);
  return {.heads = latent.heads,
          .kv_heads = latent.heads,
          // Expanded, every head has keys of its own: DeepSeek-V3's 128 heads of 128 + 64 channels.
          .head_dim = checked_add(latent.qk_nope_head_dim, latent.qk_rope_head_dim)};
}

std::int64_t value_dim_of(const Attention& attention) {
  const auto* latent = std::get_if<LatentAttention>(&attention);
  return latent != nullptr ? latent->v_head_dim : heads_of(attention).head_dim;
}

std::int64_t DecoderSpec::layers() const {
  std::int64_t total = 0;
  for (const LayerRun& run : order) total = checked_add(total, run.repeat);
  return total;
}

const MixtureOfExperts* ModelSpec::experts() const {
  const auto* decoder = std::get_if<DecoderSpec>(&architecture);
  return decoder == nullptr ? nullptr : decoder->experts();
}

const MixtureOfExperts* DecoderSpec::experts() const {
  for (const LayerKind& kind : kinds) {
    if (const auto* mixture = std::get_if<MixtureOfExperts>(&kind.feed_forward)) return mixture;
  }
  return nullptr;
}

std::size_t DecoderSpec::kind_of(std::int64_t layer) const {
  std::int64_t end = 0;
  for (const LayerRun& run : order) {
    end += run.repeat;
    if (layer < end) return run.kind;
  }
  unreachable("a decoder has as many layers as its runs");
}

std::int64_t Parallelism::ranks() const {
  return checked_multiply(checked_multiply(data, tensor), checked_multiply(pipeline, context));
}

std::int64_t Parallelism::ranks_of_a_model() const { return ranks() / data; }

LayerDivision Parallelism::division() const {
  const bool in_pieces = zero == ZeroStage::optimizer_gradients_weights && !fsdp;
  return {tensor,          context,  context_exchange, expert,
          whole_experts(), sequence, fsdp.has_value(), in_pieces};
}

std::int64_t Parallelism::shard_ranks() const {
  // ParallelDims: the mesh of fully_shard is dp_shard · cp, so context ranks hold shards too.
  return checked_multiply(data, context) / (fsdp ? fsdp->replicate : 1);
}

Reshard Parallelism::reshard() const {
  // torchtitan's apply_fsdp: reshard_after_forward = not pp_enabled, lest every micro-batch gather
  // anew.
  const bool keeps = pipeline > 1 && fsdp->reshard == Reshard::all_but_last;
  return keeps ? Reshard::never : fsdp->reshard;
}

// Megatron's expert-model-parallel groups are laid over data, context and, without expert tensor
// parallelism, tensor ranks (parallel_state.py, initialize_model_parallel).
std::int64_t Parallelism::expert_ranks() const {
  return checked_multiply(checked_multiply(data, context), whole_experts() ? tensor : 1);
}

std::int64_t Parallelism::expert_data_ranks() const { return expert_ranks() / expert; }

std::int64_t Job::global_batch() const {
  expect(training.has_value(), "a job without training has no batch");
  return checked_multiply(checked_multiply(training->micro_batch, training->gradient_accumulation),
                          parallelism.data);
}

const ForwardSpec* Job::forward() const {
  if (training) return &*training;
  return inference ? &*inference : nullptr;
}

std::int64_t Job::end_layers() const {
  return forward() != nullptr ? row_of(forward()->implementation.framework).end_layers : 0;
}

void Job::lay_over(const Parallelism& layout) {
  parallelism = layout;
  hardware.count = layout.ranks();
  if (training && layout.fsdp && training->recipe_of_fsdp) {
    training->recipe = *training->recipe_of_fsdp;
    if (model.adapter) model.adapter->dtype = training->recipe.trained.value_or(DType::fp32);
  }
  settle_adapter();
}

// DeepSpeed 0.19, engine.py, _configure_distributed_model: module.bfloat16() casts adapters too,
// but in a model that deepspeed.zero.Init has cut (is_zero_init_model). There trl 1.16 asks peft to
// widen none (autocast_adapter_dtype=False).
bool Job::keeps_widened_adapters() const {
  return parallelism.cuts_weights_as_made() && !row_of(training->implementation.loop).takes_tiles;
}

void Job::settle_adapter() {
  if (!training || !model.adapter || !training->recipe.master || model.adapter->parallel) return;
  // Beside codes peft has widened them on the device.
  model.adapter->recast = model.quantized && model.adapter->widened;
  const bool widened = model.adapter->widened && keeps_widened_adapters();
  model.adapter->dtype = widened ? DType::fp32 : training->recipe.weights;
  training->recipe.trained = model.adapter->dtype;
  // sft_trainer.py, dpo_trainer.py: gradient_checkpointing_kwargs["use_reentrant"] = True.
  const bool cuts = parallelism.zero == ZeroStage::optimizer_gradients_weights && !parallelism.fsdp;
  training->loop_reenters = cuts && row_of(training->implementation.loop).takes_tiles;
}

StageSplit Job::stage_split(std::int64_t layers, const Parallelism& layout) const {
  const auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  const bool by_cost =
      forward() != nullptr && row_of(forward()->implementation.framework).splits.deals_by_cost;
  if (!by_cost || decoder == nullptr || layout.pipeline == 1) {
    return {layers, layout, end_layers()};
  }
  Parallelism dealt = layout;
  dealt.stage_layers = stages_by_cost(*decoder, layout);
  return {layers, dealt, end_layers()};
}

Recompute Job::recompute() const { return training ? training->recompute : NoRecompute{}; }

const MethodMargins& Job::margins() const {
  return scaled_margins[static_cast<std::size_t>(scale_of(*this))];
}

namespace {

/// Latents and experts over ranks that no recorded run had, where experts are divided at all.
bool divides_unrecorded(const Job& job) {
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  if (decoder == nullptr || !job.training) return false;
  const Implementation& implementation = job.training->implementation;
  if (!row_of(implementation.framework).splits.expert) return false;
  const Parallelism& layout = job.parallelism;
  const bool cuts_experts =
      implementation.layers == LayerSpec::te && layout.tensor > 1 && !layout.whole_experts();
  const bool latent = std::holds_alternative<LatentAttention>(decoder->attention);
  return (latent && layout.tensor > 1) ||
         (decoder->experts() != nullptr && (layout.context > 1 || cuts_experts));
}

}  // namespace

TakenBatches taken_batches(const TrainingSpec& training, const Parallelism& parallelism,
                           std::int64_t micro_steps) {
  const bool first = row_of(training.implementation.loop).takes_batches_first;
  const std::int64_t samples = training.micro_batch;
  // A pipeline's schedule cuts one batch of the loader into the micro-batches
  // (torch.distributed.pipelining, _PipelineSchedule.step).
  if (parallelism.pipeline > 1) return {1, checked_multiply(samples, micro_steps), first};
  return {micro_steps, samples, first};
}

RunScale scale_of(const Job& job) {
  const HostOffload& offload = job.parallelism.offload;
  // Megatron-LM's layers of before are read in its sources.
  const bool legacy = job.training && job.training->implementation.layers == LayerSpec::legacy;
  if (offload.optimizer_on_nvme || offload.parameters_on_nvme || legacy ||
      divides_unrecorded(job)) {
    return RunScale::unrecorded;
  }
  if (job.parallelism.offload.any()) return RunScale::offloading;
  return job.hardware.count > 1 ? RunScale::several_gpus : RunScale::one_gpu;
}

// GlobalOptimManager.register_module_override(embedding, "weight", {"optim_bits": 32}).
void adapt_optimizer_to_loop(TrainingSpec& training) {
  const bool widens = row_of(training.implementation.loop).accelerate;
  for (OptimizerState& state : training.optimizer.states) {
    state.wide_embeddings = widens && state.shape == StateShape::blockwise_8bit;
  }
}

}  // namespace memest
