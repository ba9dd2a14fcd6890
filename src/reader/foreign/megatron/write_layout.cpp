#include "reader/foreign/megatron/arguments.hpp"
#include "reader/frameworks/pipeline_layout.hpp"
#include "reader/frameworks/rules.hpp"

namespace memest::megatron {
namespace {

/// How layers are divided over the ranks and their stages; a layout says how many these are.
void add_stages(const Job& job, Arguments& list) {
  const Parallelism& ranks = job.parallelism;
  if (!ranks.stage_layers.empty()) {
    const std::string layout = pipeline_layout_text(ranks.stage_layers, mtp_layers_of(job));
    return list.add("--pipeline-model-parallel-layout", "\"" + layout + "\"");
  }
  if (ranks.virtual_stages > 1) {
    list.add("--num-virtual-stages-per-pipeline-rank", ranks.virtual_stages);
  }
  if (ranks.first_stage_layers > 0) {
    list.add("--decoder-first-pipeline-num-layers", ranks.first_stage_layers);
  }
  if (ranks.last_stage_layers > 0) {
    list.add("--decoder-last-pipeline-num-layers", ranks.last_stage_layers);
  }
  list.add_if(ranks.account_for_embedding, "--account-for-embedding-in-pipeline-split");
  list.add_if(ranks.account_for_loss, "--account-for-loss-in-pipeline-split");
}

}  // namespace

std::string layout_arguments(const Job& job) {
  const Parallelism& ranks = job.parallelism;
  Arguments list("LAYOUT_ARGS");
  list.add("--tensor-model-parallel-size", ranks.tensor);
  list.add_if(ranks.sequence, "--sequence-parallel");
  list.add("--pipeline-model-parallel-size", ranks.pipeline);
  add_stages(job, list);
  list.add("--context-parallel-size", ranks.context);
  if (ranks.context > 1) {
    const bool ring = ranks.context_exchange == ContextExchange::ring;
    list.add("--cp-comm-type", ring ? "p2p" : "a2a");
    list.add_if(true, "--no-create-attention-mask-in-dataloader");
  }
  if (job.model.experts() != nullptr) {
    list.add("--expert-model-parallel-size", ranks.expert);
    list.add("--expert-tensor-parallel-size", ranks.expert_tensor.value_or(ranks.tensor));
  }
  const bool in_units = ranks.zero == ZeroStage::optimizer_gradients_weights;
  list.add_if(ranks.distributed_optimizer || in_units, "--use-distributed-optimizer");
  list.add_if(in_units, "--use-megatron-fsdp");
  if (in_units) list.add("--data-parallel-sharding-strategy", "optim_grads_params");
  list.add_if(ranks.init_on_meta_device, "--init-model-with-meta-device");
  list.add_if(ranks.overlap_grad_reduce, "--overlap-grad-reduce");
  list.add_if(ranks.overlap_param_gather, "--overlap-param-gather");
  return list.text();
}

}  // namespace memest::megatron
