#include <algorithm>

#include "reader/foreign/megatron/megatron.hpp"

namespace memest::megatron {
namespace {

struct MegatronName {
  std::string_view name;  ///< of a field of megatron-core's configs
  std::string_view flag;  ///< of Megatron-LM's command line
  std::string_view path;  ///< of Megatron-Bridge's YAML
  bool inverted = false;  ///< the flag turns it off
};

// megatron/training/arguments.py of Megatron-LM; megatron/bridge/training/config.py.
constexpr MegatronName kNames[] = {
    {"num_layers", "--num-layers", "model.num_layers"},
    {"hidden_size", "--hidden-size", "model.hidden_size"},
    {"ffn_hidden_size", "--ffn-hidden-size", "model.ffn_hidden_size"},
    {"num_attention_heads", "--num-attention-heads", "model.num_attention_heads"},
    {"group_query_attention", "--group-query-attention", ""},
    {"num_query_groups", "--num-query-groups", "model.num_query_groups"},
    {"kv_channels", "--kv-channels", "model.kv_channels"},
    {"vocab_size", "--vocab-size", "model.vocab_size"},
    {"padded_vocab_size", "--padded-vocab-size", ""},
    {"pad_vocab_size_to", "--pad-vocab-size-to", ""},
    {"make_vocab_size_divisible_by", "--make-vocab-size-divisible-by",
     "model.make_vocab_size_divisible_by"},
    {"should_pad_vocab", "", "model.should_pad_vocab"},
    {"tokenizer_vocab_size", "", "tokenizer.vocab_size"},
    {"tokenizer_type", "--tokenizer-type", "tokenizer.tokenizer_type"},
    {"swiglu", "--swiglu", "model.gated_linear_unit"},
    {"squared_relu", "--squared-relu", ""},
    {"activation_func", "", "model.activation_func"},
    {"share_embeddings_and_output_weights", "--untie-embeddings-and-output-weights",
     "model.share_embeddings_and_output_weights", true},
    {"add_bias_linear", "--disable-bias-linear", "model.add_bias_linear", true},
    {"hidden_dropout", "--hidden-dropout", "model.hidden_dropout"},
    {"attention_dropout", "--attention-dropout", "model.attention_dropout"},
    {"num_moe_experts", "--num-experts", "model.num_moe_experts"},
    {"moe_router_topk", "--moe-router-topk", "model.moe_router_topk"},
    {"moe_ffn_hidden_size", "--moe-ffn-hidden-size", "model.moe_ffn_hidden_size"},
    {"moe_shared_expert_intermediate_size", "--moe-shared-expert-intermediate-size",
     "model.moe_shared_expert_intermediate_size"},
    {"moe_shared_expert_gate", "--moe-shared-expert-gate", "model.moe_shared_expert_gate"},
    {"moe_layer_freq", "--moe-layer-freq", "model.moe_layer_freq"},
    {"moe_router_score_function", "--moe-router-score-function", "model.moe_router_score_function"},
    {"moe_router_enable_expert_bias", "--moe-router-enable-expert-bias",
     "model.moe_router_enable_expert_bias"},
    {"moe_expert_capacity_factor", "--moe-expert-capacity-factor",
     "model.moe_expert_capacity_factor"},
    {"moe_pad_expert_input_to_capacity", "--moe-pad-expert-input-to-capacity",
     "model.moe_pad_expert_input_to_capacity"},
    {"moe_token_dispatcher_type", "--moe-token-dispatcher-type", "model.moe_token_dispatcher_type"},
    {"moe_flex_dispatcher_backend", "--moe-flex-dispatcher-backend",
     "model.moe_flex_dispatcher_backend"},
    {"moe_enable_deepep", "--moe-enable-deepep", "model.moe_enable_deepep"},
    {"mtp_num_layers", "--mtp-num-layers", "model.mtp_num_layers"},
    {"multi_latent_attention", "--multi-latent-attention", "model.multi_latent_attention"},
    {"q_lora_rank", "--q-lora-rank", "model.q_lora_rank"},
    {"kv_lora_rank", "--kv-lora-rank", "model.kv_lora_rank"},
    {"qk_head_dim", "--qk-head-dim", "model.qk_head_dim"},
    {"qk_pos_emb_head_dim", "--qk-pos-emb-head-dim", "model.qk_pos_emb_head_dim"},
    {"v_head_dim", "--v-head-dim", "model.v_head_dim"},
    {"qk_layernorm", "--qk-layernorm", "model.qk_layernorm"},
    {"bf16", "--bf16", "model.bf16"},
    {"fp16", "--fp16", "model.fp16"},
    {"grad_reduce_in_fp32", "--accumulate-allreduce-grads-in-fp32", "ddp.grad_reduce_in_fp32"},
    {"grad_reduce_in_bf16", "--grad-reduce-in-bf16", ""},
    {"clip_grad", "--clip-grad", "optimizer.clip_grad"},
    {"use_precision_aware_optimizer", "--use-precision-aware-optimizer",
     "optimizer.use_precision_aware_optimizer"},
    {"store_param_remainders", "", "optimizer.store_param_remainders"},
    {"main_grads_dtype", "--main-grads-dtype", ""},
    {"main_params_dtype", "--main-params-dtype", "optimizer.main_params_dtype"},
    {"exp_avg_dtype", "--exp-avg-dtype", "optimizer.exp_avg_dtype"},
    {"exp_avg_sq_dtype", "--exp-avg-sq-dtype", "optimizer.exp_avg_sq_dtype"},
    {"recompute_activations", "--recompute-activations", ""},
    {"recompute_granularity", "--recompute-granularity", "model.recompute_granularity"},
    {"recompute_method", "--recompute-method", "model.recompute_method"},
    {"recompute_num_layers", "--recompute-num-layers", "model.recompute_num_layers"},
    {"cpu_offloading", "--cpu-offloading", "model.cpu_offloading"},
    {"cpu_offloading_num_layers", "--cpu-offloading-num-layers", "model.cpu_offloading_num_layers"},
    {"recompute_modules", "--recompute-modules", "model.recompute_modules"},
    {"moe_layer_recompute", "--moe-layer-recompute", "model.moe_layer_recompute"},
    {"cuda_graph_impl", "--cuda-graph-impl", "model.cuda_graph_impl"},
    {"cuda_graph_scope", "--cuda-graph-scope", "model.cuda_graph_scope"},
    {"enable_cuda_graph", "--enable-cuda-graph", "model.enable_cuda_graph"},
    {"external_cuda_graph", "--external-cuda-graph", "model.external_cuda_graph"},
    {"distribute_saved_activations", "--distribute-saved-activations",
     "model.distribute_saved_activations"},
    {"transformer_impl", "--transformer-impl", "model.transformer_impl"},
    {"use_legacy_models", "--use-legacy-models", ""},
    {"no_masked_softmax_fusion", "--no-masked-softmax-fusion", ""},
    {"no_bias_gelu_fusion", "--no-bias-gelu-fusion", ""},
    {"no_bias_dropout_fusion", "--no-bias-dropout-fusion", ""},
    {"deepspeed", "--deepspeed", ""},
    {"zero_stage", "--zero-stage", ""},
    {"pp_partition_method", "--pp-partition-method", ""},
    {"attention_backend", "--attention-backend", "model.attention_backend"},
    {"cross_entropy_loss_fusion", "--cross-entropy-loss-fusion", "model.cross_entropy_loss_fusion"},
    {"cross_entropy_fusion_impl", "--cross-entropy-fusion-impl", "model.cross_entropy_fusion_impl"},
    {"tensor_model_parallel_size", "--tensor-model-parallel-size",
     "model.tensor_model_parallel_size"},
    {"pipeline_model_parallel_size", "--pipeline-model-parallel-size",
     "model.pipeline_model_parallel_size"},
    {"context_parallel_size", "--context-parallel-size", "model.context_parallel_size"},
    {"sequence_parallel", "--sequence-parallel", "model.sequence_parallel"},
    {"num_layers_per_virtual_pipeline_stage", "--num-layers-per-virtual-pipeline-stage", ""},
    {"pipeline_model_parallel_layout", "--pipeline-model-parallel-layout",
     "model.pipeline_model_parallel_layout"},
    {"account_for_embedding_in_pipeline_split", "--account-for-embedding-in-pipeline-split",
     "model.account_for_embedding_in_pipeline_split"},
    {"account_for_loss_in_pipeline_split", "--account-for-loss-in-pipeline-split",
     "model.account_for_loss_in_pipeline_split"},
    {"virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank",
     "model.virtual_pipeline_model_parallel_size"},
};

const MegatronName* name_row(std::string_view name) {
  const auto* const row = std::ranges::find(kNames, name, &MegatronName::name);
  return row == std::end(kNames) ? nullptr : row;
}

}  // namespace

MegatronFile::MegatronFile(ForeignImport& imported)
    : file(imported), yaml_(imported.root().find("model") != nullptr) {}

std::string_view MegatronFile::key(std::string_view name) const {
  const MegatronName* row = name_row(name);
  expect(row != nullptr, "a key of Megatron's that has no name in the table");
  return yaml_ ? row->path : row->flag;
}

bool MegatronFile::has(std::string_view name) const {
  const std::string_view path = key(name);
  return !path.empty() && file.find(path) != nullptr;
}

std::optional<std::int64_t> MegatronFile::count(std::string_view name) const {
  return has(name) ? file.count(key(name)) : std::nullopt;
}

std::int64_t MegatronFile::count(std::string_view name, std::int64_t fallback) const {
  return count(name).value_or(fallback);
}

std::string MegatronFile::text(std::string_view name, std::string_view fallback) const {
  return has(name) ? file.text(key(name)) : std::string(fallback);
}

bool MegatronFile::flag(std::string_view name, bool fallback) const {
  if (!has(name)) return fallback;
  return file.flag(key(name)) != (name_row(name)->inverted && !yaml_);
}

}  // namespace memest::megatron
