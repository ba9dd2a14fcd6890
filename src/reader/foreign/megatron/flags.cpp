// Flags of Megatron-LM's command lines: megatron/training/arguments.py, at megatron-core 0.16 and
// earlier.
#include "reader/foreign/environment.hpp"
#include "reader/foreign/megatron/idle_flags.hpp"
#include "reader/foreign/megatron/megatron.hpp"

namespace memest {
namespace {

using namespace megatron;

constexpr WordPair kNorms[] = {{"LayerNorm", "layernorm"}, {"RMSNorm", "rmsnorm"}};
constexpr WordPair kPositions[] = {
    {"learned_absolute", "learned"}, {"rope", "rope"}, {"yarn", "rope"}, {"none", "none"}};
constexpr WordPair kSwitch[] = {{"true", "true"}, {"false", ""}};
constexpr WordPair kRecomputed[] = {{"true", "full"}, {"uniform", "full"}, {"false", ""}};
constexpr WordPair kRotary[] = {{"true", "rope"}, {"false", ""}};
constexpr WordPair kOptimizers[] = {{"adam", "adamw"}};
constexpr WordPair kExchanges[] = {{"p2p", "ring"}, {"a2a", "all-to-all"}};

constexpr KeyRow kPlain[] = {
    maps("--num-layers", "model.layers"),
    maps("--hidden-size", "model.hidden_size"),
    maps("--num-attention-heads", "model.heads"),
    maps("--max-position-embeddings", "model.max_positions"),
    {.key = "--position-embedding-type",
     .own = "model.position",
     .words = kPositions,
     .absent = "learned"},
    {.key = "--use-rotary-position-embeddings", .own = "model.position", .words = kRotary},
    {.key = "--normalization", .own = "model.norm", .words = kNorms, .absent = "layernorm"},
    maps("--seq-length", "training.seq_len"),
    maps("--encoder-seq-length", "training.seq_len"),
    maps("--micro-batch-size", "training.micro_batch"),
    maps("--global-batch-size", "training.global_batch"),
    {.key = "--optimizer", .own = "training.optimizer", .words = kOptimizers},
    maps("--use-distributed-optimizer", "parallelism.distributed_optimizer", kSwitch),
    maps("--overlap-grad-reduce", "parallelism.overlap_grad_reduce", kSwitch),
    maps("--overlap-param-gather", "parallelism.overlap_param_gather", kSwitch),
    // Releases before 2022: a checkpoint around each layer.
    maps("--checkpoint-activations", "training.recompute", kRecomputed),
    maps("--activations-checkpoint-method", "training.recompute", kRecomputed),
    maps("--expert-model-parallel-size", "parallelism.expert"),
    maps("--expert-tensor-parallel-size", "parallelism.expert_tensor"),
    maps("--decoder-first-pipeline-num-layers", "parallelism.first_stage_layers"),
    maps("--decoder-last-pipeline-num-layers", "parallelism.last_stage_layers"),
    {.key = "--cp-comm-type", .own = "parallelism.context_exchange", .words = kExchanges},
};

constexpr std::string_view kDerivedKeys[] = {"--ffn-hidden-size",
                                             "--group-query-attention",
                                             "--num-query-groups",
                                             "--kv-channels",
                                             "--vocab-size",
                                             "--padded-vocab-size",
                                             "--make-vocab-size-divisible-by",
                                             "--tokenizer-type",
                                             "--tokenizer-model",
                                             "--merge-file",
                                             "--swiglu",
                                             "--squared-relu",
                                             "--untie-embeddings-and-output-weights",
                                             "--disable-bias-linear",
                                             "--hidden-dropout",
                                             "--attention-dropout",
                                             "--num-experts",
                                             "--moe-router-topk",
                                             "--moe-ffn-hidden-size",
                                             "--moe-shared-expert-intermediate-size",
                                             "--moe-shared-expert-gate",
                                             "--moe-layer-freq",
                                             "--moe-router-score-function",
                                             "--moe-router-enable-expert-bias",
                                             "--moe-expert-capacity-factor",
                                             "--moe-pad-expert-input-to-capacity",
                                             "--multi-latent-attention",
                                             "--q-lora-rank",
                                             "--kv-lora-rank",
                                             "--qk-head-dim",
                                             "--qk-pos-emb-head-dim",
                                             "--v-head-dim",
                                             "--qk-layernorm",
                                             "--bf16",
                                             "--fp16",
                                             "--accumulate-allreduce-grads-in-fp32",
                                             "--grad-reduce-in-bf16",
                                             "--clip-grad",
                                             "--recompute-activations",
                                             "--recompute-granularity",
                                             "--recompute-method",
                                             "--recompute-num-layers",
                                             "--recompute-modules",
                                             "--distribute-saved-activations",
                                             "--transformer-impl",
                                             "--attention-backend",
                                             "--cross-entropy-loss-fusion",
                                             "--cross-entropy-fusion-impl",
                                             "--tensor-model-parallel-size",
                                             "--pipeline-model-parallel-size",
                                             "--context-parallel-size",
                                             "--sequence-parallel",
                                             "--num-layers-per-virtual-pipeline-stage",
                                             "--num-virtual-stages-per-pipeline-rank",
                                             "script",
                                             "launcher.--nproc_per_node",
                                             "launcher.--nproc-per-node",
                                             "launcher.--nnodes",
                                             "launcher.--num_gpus",
                                             "launcher.--num_nodes",
                                             "sbatch.--gpus-per-node",
                                             "sbatch.--ntasks-per-node",
                                             "sbatch.--gres",
                                             "sbatch.--nodes",
                                             "sbatch.-N",
                                             "env.PYTORCH_CUDA_ALLOC_CONF",
                                             "env.PYTORCH_ALLOC_CONF"};
constexpr auto kDerived = all_derived(kDerivedKeys);

constexpr std::string_view kNarrow = "linear layers of Transformer Engine in fewer than 16 bits";
constexpr std::string_view kOtherFsdp = "Megatron's FSDP";
constexpr std::string_view kOtherModel = "a model other than GPT";
constexpr KeyRow kRefused[] = {
    refused_key("--fp8-format", "none", kNarrow),
    refused_key("--fp4-format", "none", kNarrow),
    refused_key("--use-megatron-fsdp", "false", kOtherFsdp),
    refused_key("--use-custom-fsdp", "false", kOtherFsdp),
    refused_key("--use-torch-fsdp2", "false", "FSDP2 around Megatron's layers"),
    refused_key("--optimizer-cpu-offload", "false", "Megatron's optimizer on the host"),
    refused_key("--cpu-offloading-num-layers", "0", "Megatron's activations on the host"),
    refused_key("--fine-grained-activation-offloading", "false",
                "Megatron's activations on the host"),
    refused_key("--use-precision-aware-optimizer", "false",
                "states of Megatron's optimizer in types of their own"),
    refused_key("--mtp-num-layers", "0|none", "prediction of several tokens"),
    refused_key("--moe-layer-recompute", "false", "recompute of whole layers of experts"),
    refused_key("--pipeline-model-parallel-layout", "", "stages that are named by layer"),
    refused_key("--account-for-embedding-in-pipeline-split", "false",
                "stages that count the embedding as a layer"),
    refused_key("--account-for-loss-in-pipeline-split", "false",
                "stages that count the loss as a layer"),
    refused_key("--standalone-embedding-stage", "false", "a stage of the embedding alone"),
    refused_key("--retro-add-retriever", "false", kOtherModel),
    refused_key("--hybrid-override-pattern", "", kOtherModel),
    refused_key("--hybrid-attention-ratio", "0|0.0", kOtherModel),
    refused_key("--encoder-num-layers", "0", kOtherModel),
    refused_key("--decoder-num-layers", "0", kOtherModel),
    refused_key("--decoder-seq-length", "", kOtherModel),
    refused_key("--num-classes", "", kOtherModel),
    refused_key("--experimental-attention-variant", "", "attention other than softmax's"),
    refused_key("--linear-attention-freq", "", "attention other than softmax's"),
    refused_key("--window-size", "", "attention over windows in Megatron"),
    refused_key("--fp32-residual-connection", "false", "residual sums in fp32"),
    refused_key("--moe-extended-tp", "false", "experts over tensor and expert ranks together"),
    refused_key("--yaml-cfg", "", "arguments in a YAML file of Megatron-LM's"),
};

constexpr KeyRow kNotFollowed[] = {
    not_followed("--rampup-batch-size", "", "the step is that of the whole global batch"),
    not_followed("--add-qkv-bias", "false", "biases of queries, keys and values alone"),
    not_followed("--rotary-percent", "1.0|1", "every channel of a head rotates"),
    not_followed("--openai-gelu", "false", "the activation is PyTorch's gelu"),
    not_followed("--quick-geglu", "false", "the activation is that of --swiglu"),
    not_followed("--apply-residual-connection-post-layernorm", "false",
                 "residual sums start before the norm"),
    not_followed("--apply-query-key-layer-scaling", "false", "scores are not scaled by layer"),
    not_followed("--no-masked-softmax-fusion", "false", "the scaled softmax is one kernel"),
    not_followed("--no-bias-gelu-fusion", "false", "bias and gelu are one kernel"),
    not_followed("--no-bias-swiglu-fusion", "false", "the gate's product is one kernel"),
    not_followed("--no-bias-dropout-fusion", "false", "bias, dropout and sum are one kernel"),
    not_followed("--no-rope-fusion", "false", "the layers' own rotation"),
    not_followed("--no-persist-layer-norm", "false", "norms are one kernel"),
    not_followed("--no-gradient-accumulation-fusion", "false",
                 "weights' gradients are added to the main gradients as they come"),
    not_followed("--use-flash-attn", "false", "the layers' own attention"),
    not_followed("--tp-comm-overlap", "false",
                 "products and collectives of tensor ranks follow each other"),
    not_followed("--delay-wgrad-compute", "false", "weights' gradients come with their inputs'"),
    not_followed("--overlap-moe-expert-parallel-comm", "false",
                 "experts' exchanges and products follow each other"),
    not_followed("--moe-shared-expert-overlap", "false",
                 "shared experts run before the routed ones"),
    not_followed("--moe-permute-fusion", "false", "the permutation is not fused"),
    not_followed("--moe-router-fusion", "false", "the router is not fused"),
    not_followed("--moe-router-dtype", "", "the router computes in the weights' type"),
    not_followed("--moe-token-dispatcher-type", "alltoall", "tokens go by all-to-all"),
    not_followed("--moe-enable-deepep", "false", "tokens go by all-to-all"),
    not_followed("--moe-flex-dispatcher-backend", "", "tokens go by all-to-all"),
    not_followed("--moe-aux-loss-coeff", "0|0.0", "the router has no loss of its own"),
    not_followed("--moe-z-loss-coeff", "0|0.0|none", "the router has no loss of its own"),
    not_followed("--moe-input-jitter-eps", "0|0.0|none", "the router's input has no noise"),
    not_followed("--moe-token-drop-policy", "probs", "tokens of low probability are dropped"),
    not_followed("--moe-router-group-topk", "", "every group of experts may be chosen"),
    not_followed("--moe-router-num-groups", "", "every group of experts may be chosen"),
    not_followed("--moe-router-topk-limited-devices", "", "every rank may be chosen"),
    not_followed("--moe-router-padding-for-fp8", "false", "nothing is padded"),
    not_followed("--moe-use-legacy-grouped-gemm", "false", "experts are the layers' own"),
    not_followed("--enable-cuda-graph", "false", "every kernel is launched"),
    not_followed("--external-cuda-graph", "false", "every kernel is launched"),
    not_followed("--cuda-graph-impl", "none", "every kernel is launched"),
    not_followed("--ddp-bucket-size", "", "buckets have Megatron's usual size"),
    not_followed("--ddp-num-buckets", "", "buckets have Megatron's usual size"),
    not_followed("--num-distributed-optimizer-instances", "1",
                 "the optimizer is shared by all data ranks"),
    not_followed("--overlap-param-gather-with-optimizer-step", "false",
                 "weights are gathered beside the next forward"),
    not_followed("--defer-embedding-wgrad-compute", "false",
                 "the head's gradient is computed as it comes"),
    not_followed("--microbatch-group-size-per-virtual-pipeline-stage", "",
                 "as many micro-batches in a row as there are stages"),
    not_followed("--no-overlap-p2p-communication", "false",
                 "interleaved stages exchange beside their passes"),
    not_followed("--use-tp-pp-dp-mapping", "false", "the ranks' order is tensor, data, pipeline"),
    not_followed("--deterministic-mode", "false", "kernels are the usual ones"),
    not_followed("--empty-unused-memory-level", "0", "the allocator keeps its segments"),
    not_followed("--use-legacy-models", "false", "layers are megatron-core's"),
    not_followed("--spec", "", "what the module builds stands in no file"),
    not_followed("--log-num-zeros-in-grad", "false", "nobody counts zeros"),
    not_followed("--log-params-norm", "false", "nobody takes the weights' norm"),
    not_followed("--nccl-ub", "false", "buffers are the allocator's"),
    not_followed("--disable-jit-fuser", "false", "the layers' own kernels"),
    not_followed("--use-cpu-initialization", "false", "weights are made on the GPU"),
    not_followed("--init-model-with-meta-device", "false", "weights are made on the GPU"),
    not_followed("--attention-softmax-in-fp32", "false", "the layers' own softmax"),
    not_followed("--calculate-per-token-loss", "false", "the loss is a mean"),
};

constexpr std::span<const KeyRow> kTables[] = {
    kPlain,       kDerived,         kRefused,      kNotFollowed, kRotationRows,   kRoutingRows,
    kLoggingRows, kCheckpointsRows, kScheduleRows, kDataRows,    kEvaluationRows, kRunRows};

constexpr std::string_view kByLayers[] = {"--num-layers", "--num-attention-heads"};
constexpr TellingKeys kTelling[] = {kByLayers};
constexpr Derivation kDerivations[] = {
    write_sizes,       write_vocabulary, write_experts, write_layer_kinds, write_types,
    write_checkpoints, write_layers_of,  write_stages,  write_gpus,        write_environment};

constexpr Dialect kDialect = {.name = "megatron",
                              .noun = "Megatron-LM's command line",
                              .syntax = Syntax::shell,
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations};

}  // namespace

const Dialect& megatron_dialect() { return kDialect; }

}  // namespace memest
