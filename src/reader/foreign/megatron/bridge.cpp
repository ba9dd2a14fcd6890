// Keys of Megatron-Bridge's YAML: megatron/bridge/training/config.py, release 0.3.
#include "reader/foreign/megatron/megatron.hpp"

namespace memest {
namespace {

using namespace megatron;

constexpr WordPair kNorms[] = {{"LayerNorm", "layernorm"}, {"RMSNorm", "rmsnorm"}};
constexpr WordPair kPositions[] = {
    {"learned_absolute", "learned"}, {"rope", "rope"}, {"yarn", "rope"}, {"none", "none"}};
constexpr WordPair kOptimizers[] = {{"adam", "adamw"}};
constexpr WordPair kExchanges[] = {{"p2p", "ring"}, {"a2a", "all-to-all"}};

constexpr KeyRow kPlain[] = {
    maps("model.num_layers", "model.layers"),
    maps("model.hidden_size", "model.hidden_size"),
    maps("model.num_attention_heads", "model.heads"),
    {.key = "model.position_embedding_type", .own = "model.position", .words = kPositions},
    {.key = "model.normalization", .own = "model.norm", .words = kNorms},
    maps("model.seq_length", "training.seq_len"),
    maps("train.micro_batch_size", "training.micro_batch"),
    maps("train.global_batch_size", "training.global_batch"),
    {.key = "optimizer.optimizer", .own = "training.optimizer", .words = kOptimizers},
    maps("ddp.use_distributed_optimizer", "parallelism.distributed_optimizer"),
    maps("ddp.overlap_grad_reduce", "parallelism.overlap_grad_reduce"),
    maps("ddp.overlap_param_gather", "parallelism.overlap_param_gather"),
    maps("model.expert_model_parallel_size", "parallelism.expert"),
    maps("model.expert_tensor_parallel_size", "parallelism.expert_tensor"),
    maps("model.num_layers_in_first_pipeline_stage", "parallelism.first_stage_layers"),
    maps("model.num_layers_in_last_pipeline_stage", "parallelism.last_stage_layers"),
    {.key = "model.cp_comm_type", .own = "parallelism.context_exchange", .words = kExchanges},
};

constexpr std::string_view kDerivedKeys[] = {"model.ffn_hidden_size",
                                             "model.num_query_groups",
                                             "model.kv_channels",
                                             "model.vocab_size",
                                             "model.make_vocab_size_divisible_by",
                                             "model.should_pad_vocab",
                                             "tokenizer.tokenizer_type",
                                             "tokenizer.tokenizer_model",
                                             "tokenizer.vocab_size",
                                             "model.gated_linear_unit",
                                             "model.activation_func",
                                             "model.share_embeddings_and_output_weights",
                                             "model.add_bias_linear",
                                             "model.hidden_dropout",
                                             "model.attention_dropout",
                                             "model.num_moe_experts",
                                             "model.moe_router_topk",
                                             "model.moe_ffn_hidden_size",
                                             "model.moe_shared_expert_intermediate_size",
                                             "model.moe_shared_expert_gate",
                                             "model.moe_layer_freq",
                                             "model.moe_router_score_function",
                                             "model.moe_router_enable_expert_bias",
                                             "model.moe_expert_capacity_factor",
                                             "model.moe_pad_expert_input_to_capacity",
                                             "model.multi_latent_attention",
                                             "model.q_lora_rank",
                                             "model.kv_lora_rank",
                                             "model.qk_head_dim",
                                             "model.qk_pos_emb_head_dim",
                                             "model.v_head_dim",
                                             "model.qk_layernorm",
                                             "model.bf16",
                                             "model.fp16",
                                             "mixed_precision",
                                             "ddp.grad_reduce_in_fp32",
                                             "optimizer.clip_grad",
                                             "model.recompute_granularity",
                                             "model.recompute_method",
                                             "model.recompute_num_layers",
                                             "model.recompute_modules",
                                             "model.distribute_saved_activations",
                                             "model.transformer_impl",
                                             "model.attention_backend",
                                             "model.cross_entropy_loss_fusion",
                                             "model.cross_entropy_fusion_impl",
                                             "model.tensor_model_parallel_size",
                                             "model.pipeline_model_parallel_size",
                                             "model.context_parallel_size",
                                             "model.sequence_parallel",
                                             "model.virtual_pipeline_model_parallel_size"};
constexpr auto kDerived = all_derived(kDerivedKeys);

constexpr std::string_view kNarrow = "linear layers of Transformer Engine in fewer than 16 bits";
constexpr KeyRow kRefused[] = {
    refused_key("model.fp8", "none", kNarrow),
    refused_key("model.fp4", "none", kNarrow),
    refused_key("peft", "none", "adapters on Megatron's layers"),
    refused_key("dist.use_megatron_fsdp", "false", "Megatron's FSDP"),
    refused_key("ddp.use_megatron_fsdp", "false", "Megatron's FSDP"),
    refused_key("ddp.use_custom_fsdp", "false", "Megatron's FSDP"),
    refused_key("dist.use_torch_fsdp2", "false", "FSDP2 around Megatron's layers"),
    refused_key("optimizer.optimizer_cpu_offload", "false", "Megatron's optimizer on the host"),
    refused_key("optimizer.use_precision_aware_optimizer", "false",
                "states of Megatron's optimizer in types of their own"),
    refused_key("model.cpu_offloading", "false", "Megatron's activations on the host"),
    refused_key("model.fine_grained_activation_offloading", "false",
                "Megatron's activations on the host"),
    refused_key("model.mtp_num_layers", "0|none", "prediction of several tokens"),
    refused_key("model.pipeline_model_parallel_layout", "none", "stages that are named by layer"),
    refused_key("model.account_for_embedding_in_pipeline_split", "false",
                "stages that count the embedding as a layer"),
    refused_key("model.account_for_loss_in_pipeline_split", "false",
                "stages that count the loss as a layer"),
    refused_key("model.window_size", "none", "attention over windows in Megatron"),
    refused_key("model.fp32_residual_connection", "false", "residual sums in fp32"),
    refused_key("model.moe_layer_recompute", "false", "recompute of whole layers of experts"),
    refused_key("model.is_hybrid_model", "false", "a model other than GPT"),
    refused_key("model.experimental_attention_variant", "none", "attention other than softmax's"),
    refused_key("model.linear_attention_freq", "none", "attention other than softmax's"),
};

constexpr KeyRow kNotFollowed[] = {
    not_followed("train.rampup_batch_size", "none", "the step is that of the whole global batch"),
    not_followed("model.add_qkv_bias", "false", "biases of queries, keys and values alone"),
    not_followed("model.rotary_percent", "1.0|1", "every channel of a head rotates"),
    not_followed("model.tp_comm_overlap", "false",
                 "products and collectives of tensor ranks follow each other"),
    not_followed("comm_overlap.tp_comm_overlap", "false|none",
                 "products and collectives of tensor ranks follow each other"),
    not_followed("model.apply_rope_fusion", "false", "the layers' own rotation"),
    not_followed("model.moe_permute_fusion", "false", "the permutation is not fused"),
    not_followed("model.moe_router_fusion", "false", "the router is not fused"),
    not_followed("model.moe_shared_expert_overlap", "false",
                 "shared experts run before the routed ones"),
    not_followed("model.moe_token_dispatcher_type", "alltoall|allgather",
                 "tokens go by all-to-all"),
    not_followed("model.moe_enable_deepep", "false", "tokens go by all-to-all"),
    not_followed("model.moe_aux_loss_coeff", "0|0.0", "the router has no loss of its own"),
    not_followed("model.moe_z_loss_coeff", "0|0.0|none", "the router has no loss of its own"),
    not_followed("model.moe_router_dtype", "none", "the router computes in the weights' type"),
    not_followed("model.enable_cuda_graph", "false", "every kernel is launched"),
    not_followed("model.external_cuda_graph", "false", "every kernel is launched"),
    not_followed("model.cuda_graph_impl", "none", "every kernel is launched"),
    not_followed("ddp.bucket_size", "none", "buckets have Megatron's usual size"),
    not_followed("ddp.num_distributed_optimizer_instances", "1",
                 "the optimizer is shared by all data ranks"),
    not_followed("ddp.nccl_ub", "false", "buffers are the allocator's"),
    not_followed("ddp.data_parallel_sharding_strategy", "no_shard",
                 "the distributed optimizer shards states alone"),
    not_followed("model.defer_embedding_wgrad_compute", "false",
                 "the head's gradient is computed as it comes"),
    not_followed("model.delay_wgrad_compute", "false",
                 "weights' gradients come with their inputs'"),
    not_followed("model.overlap_moe_expert_parallel_comm", "false",
                 "experts' exchanges and products follow each other"),
    not_followed("train.empty_unused_memory_level", "0", "the allocator keeps its segments"),
    not_followed("model.deterministic_mode", "false", "kernels are the usual ones"),
    not_followed("logger.log_params_norm", "false", "nobody takes the weights' norm"),
};

constexpr KeyRow kIdle[] = {
    no_effect("_target_", kAboutRun),
    no_effect("model.*", "values of the model, or its habits in other layouts"),
    no_effect("train.*", kAboutSchedule),
    no_effect("optimizer.*", kAboutSchedule),
    no_effect("scheduler.*", kAboutSchedule),
    no_effect("ddp.*", "the order of reductions"),
    no_effect("dist.*", kAboutRun),
    no_effect("dataset.*", kAboutData),
    no_effect("tokenizer.*", kAboutData),
    no_effect("logger.*", kAboutLogging),
    no_effect("checkpoint.*", kAboutCheckpoints),
    no_effect("rng.*", kAboutSeeds),
    no_effect("profiling.*", kAboutLogging),
    no_effect("comm_overlap.*", kAboutRun),
    no_effect("optimizer_config_override_provider.*", kAboutSchedule),
    no_effect("rerun_state_machine.*", kAboutRun),
    no_effect("straggler.*", kAboutLogging),
    no_effect("nvrx_straggler.*", kAboutLogging),
    no_effect("tensor_inspect.*", kAboutLogging),
    no_effect("inprocess_restart.*", kAboutRun),
    no_effect("ft.*", kAboutRun),
};

constexpr std::span<const KeyRow> kTables[] = {kPlain, kDerived, kRefused, kNotFollowed, kIdle};

constexpr std::string_view kByParallel[] = {"model", "train.micro_batch_size"};
constexpr std::string_view kByGlobal[] = {"model", "train.global_batch_size"};
constexpr std::string_view kByContainer[] = {"model.tensor_model_parallel_size"};
constexpr TellingKeys kTelling[] = {kByParallel, kByGlobal, kByContainer};
constexpr Derivation kDerivations[] = {write_sizes,       write_vocabulary, write_experts,
                                       write_layer_kinds, write_types,      write_checkpoints,
                                       write_layers_of,   write_stages};

constexpr Dialect kDialect = {.name = "megatron-bridge",
                              .noun = "Megatron-Bridge's YAML",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations};

}  // namespace

const Dialect& megatron_bridge_dialect() { return kDialect; }

}  // namespace memest
