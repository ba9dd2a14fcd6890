// The keys of `parallelism`, `hardware`, `budget` and `allocator`.
#include <algorithm>
#include <vector>

#include "reader/keys/keys.hpp"

namespace memest {
namespace {

// DistributedDataParallel.__init__: bucket_cap_mb None is 25.
constexpr Key kDdpKeys[] = {
    {.name = "bucket_mb",
     .shapes = {count(1, 1'000'000)},
     .fallback = "25",
     .doc = "DistributedDataParallel's bucket_cap_mb."},
    {.name = "gradient_as_bucket_view",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Gradients are views of the buckets."},
    {.name = "find_unused_parameters",
     .shapes = {flag()},
     .doc = "DistributedDataParallel looks for parameters that a forward did not use; false where "
            "left out, or the Trainer's own."},
};

/// Most elements of any bucket: far above every model.
constexpr std::int64_t kMaxBucket = 1'000'000'000'000;

// torchtitan's fsdp_reshard_after_forward; fully_shard itself takes true, false or a number.
constexpr Word kReshards[] = {{"default"}, {"always"}, {"never"}};
constexpr Word kUnits[] = {{"block"}, {"adapters"}};
constexpr Word kInits[] = {{"meta"}, {"host"}, {"device"}};
constexpr Key kFsdpKeys[] = {
    {.name = "version", .shapes = {count(1, 2)}, .fallback = "2", .doc = "FSDP1 or FSDP2."},
    {.name = "reshard_after_forward",
     .shapes = {flag(), choice(kReshards)},
     .fallback = "true",
     .doc = "Whether a unit's weights are freed after its forward; torchtitan's own is default."},
    {.name = "units",
     .shapes = {choice(kUnits)},
     .fallback = "block",
     .doc =
         "What is gathered at once: a layer, or in FSDP1 every trained module of a layer by itself "
         "and the rest of it (peft's fsdp_auto_wrap_policy)."},
    {.name = "replicate",
     .shapes = {count(1, kMaxRanks)},
     .fallback = "1",
     .doc = "Replicas of the sharded model (HSDP)."},
    {.name = "init",
     .shapes = {choice(kInits)},
     .doc = "Where the weights are before they are sharded: nowhere, in the host's memory, or all "
            "on the GPU; the framework's own habit where it is left out."},
    {.name = "sync_module_states",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "FSDP1 sends the first rank's weights to all, a unit at a time."},
    {.name = "no_sync",
     .shapes = {flag()},
     .fallback = "false",
     .doc =
         "FSDP1 reduces a step's gradients in its last micro-step, and has them whole until then "
         "(its no_sync(), which Fabric's no_backward_sync is)."},
};

constexpr Word kAuto[] = {{"auto"}};
// deepspeed/runtime/zero/config.py: DeepSpeedZeroConfig, with its defaults. overlap_comm is None
// there, which means true in stage 3 alone.
constexpr Key kDeepSpeedKeys[] = {
    {.name = "reduce_bucket_size",
     .shapes = {count(1, kMaxBucket), choice(kAuto)},
     .fallback = "500000000",
     .doc = "Elements of the bucket that gradients are reduced in; `auto` is h²."},
    {.name = "overlap_comm",
     .shapes = {flag()},
     .fallback = "true in stage 3",
     .doc =
         "Reduces beside the backward, with a second bucket in stages 1 and 2, and gathers beside "
         "both passes in stage 3."},
    {.name = "contiguous_gradients",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "Copies gradients into the bucket as they come."},
    {.name = "stage3_prefetch_bucket_size",
     .shapes = {count(0, kMaxBucket), choice(kAuto)},
     .fallback = "50000000",
     .doc = "Elements of the weights gathered ahead of a module; `auto` is 0.9·h²."},
    {.name = "stage3_param_persistence_threshold",
     .shapes = {count(0, kMaxBucket), choice(kAuto)},
     .fallback = "100000",
     .doc = "Weights of fewer elements stay gathered; `auto` is 10·h."},
    {.name = "stage3_max_live_parameters",
     .shapes = {count(0, kMaxBucket)},
     .fallback = "1000000000",
     .doc = "Elements of gathered weights beyond which nothing is gathered ahead."},
    {.name = "stage3_max_reuse_distance",
     .shapes = {count(0, kMaxBucket), choice(kAuto)},
     .fallback = "1000000000",
     .doc =
         "Elements of the weights that modules use next, among which one in use stays gathered."},
    {.name = "zero_init",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "deepspeed.zero.Init, as transformers' from_pretrained has it: stage 3 cuts each "
            "weight as it is "
            "made. Without it the whole model comes to the device first."},
    {.name = "sub_group_size",
     .shapes = {count(1, kMaxBucket)},
     .fallback = "1000000000",
     .doc = "Elements of the shard that stage 3 steps at once."},
};

constexpr Word kOffloadDevices[] = {{"none"}, {"cpu"}, {"nvme"}};
// deepspeed/runtime/zero/offload_config.py: offload_optimizer and offload_param, both with a device
// and pin_memory. FSDP2's CPUOffloadPolicy has pin_memory alone.
constexpr Key kOffloadKeys[] = {
    {.name = "optimizer",
     .shapes = {choice(kOffloadDevices)},
     .fallback = "none",
     .doc = "Where the optimizer's states lie and its step runs: DeepSpeed's offload_optimizer."},
    {.name = "parameters",
     .shapes = {choice(kOffloadDevices)},
     .fallback = "none",
     .doc = "Where the shards of the weights lie: DeepSpeed's offload_param."},
    {.name = "pin_memory",
     .shapes = {flag()},
     .fallback = "true",
     .doc = "Whether the host's memory is page-locked."},
};

// torch.distributed.pipelining's get_schedule_class: 1F1B, Interleaved1F1B, InterleavedZeroBubble,
// ZBVZeroBubble, DualPipeV and GPipe.
constexpr Word kSchedules[] = {{"1f1b"}, {"interleaved"}, {"zero-bubble"},
                               {"zbv"},  {"dualpipe-v"},  {"gpipe"}};

// Megatron's cp_comm_type knows all_gather and a2a+p2p besides.
constexpr Word kContextExchanges[] = {{"ring"}, {"all-to-all"}};

constexpr Shapes kStageLayers = {count(0, kMaxLayers)};

constexpr Key kParallelismKeys[] = {
    {.name = "data",
     .shapes = {count(1, kMaxRanks)},
     .fallback = "1",
     .doc = "Data-parallel ranks; all GPUs where `parallelism` is left out."},
    {.name = "tensor",
     .shapes = {count(1, kMaxRanks)},
     .fallback = "1",
     .doc = "Tensor-parallel ranks."},
    {.name = "pipeline",
     .shapes = {count(1, kMaxRanks)},
     .fallback = "1",
     .doc = "Pipeline stages."},
    {.name = "context",
     .shapes = {count(1, kMaxRanks)},
     .fallback = "1",
     .doc = "Context-parallel ranks."},
    {.name = "context_exchange",
     .shapes = {choice(kContextExchanges)},
     .fallback = "ring",
     .doc = "How attention comes by the rest of the sequence: keys and values go round (Megatron's "
            "p2p; torchtitan gathers them), or every rank gets some heads' whole sequence (a2a, "
            "Ulysses)."},
    {.name = "expert",
     .shapes = {count(1, kMaxRanks)},
     .fallback = "1",
     .doc = "Expert-parallel ranks, within the data-parallel ones."},
    {.name = "expert_tensor",
     .shapes = {count(1, kMaxRanks)},
     .doc = "Ranks that an expert is cut over (Megatron's expert_tensor_parallel_size); `tensor` "
            "where left out."},
    {.name = "zero",
     .shapes = {count(0, 3)},
     .fallback = "0",
     .doc = "ZeRO stage: shards of the states (1), the gradients (2) and the weights (3)."},
    {.name = "ddp", .shapes = {table(kDdpKeys)}, .doc = "DistributedDataParallel's own choices."},
    {.name = "deepspeed",
     .shapes = {table(kDeepSpeedKeys)},
     .doc = "DeepSpeed's own choices for `zero`, named as in its section zero_optimization."},
    {.name = "fsdp", .shapes = {table(kFsdpKeys)}, .doc = "FullyShardedDataParallel."},
    {.name = "offload",
     .shapes = {table(kOffloadKeys)},
     .doc = "What lies in the host's memory: DeepSpeed's offload, FSDP2's CPUOffloadPolicy."},
    {.name = "sequence",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Sequence parallelism beside tensor parallelism."},
    {.name = "schedule",
     .shapes = {choice(kSchedules)},
     .fallback = "1f1b",
     .doc = "Order of the pipeline's micro-steps; 'interleaved' where a rank has several stages."},
    {.name = "virtual_stages",
     .shapes = {count(1, kMaxLayers)},
     .fallback = "1",
     .doc =
         "Stages a rank of an interleaved or zero-bubble pipeline; torchtitan's has 2 unless told "
         "otherwise."},
    {.name = "first_stage_layers",
     .shapes = {count(1, kMaxLayers)},
     .doc = "Layers of the first stage, where the others do not have as many (Megatron's "
            "decoder_first_pipeline_num_layers)."},
    {.name = "last_stage_layers",
     .shapes = {count(1, kMaxLayers)},
     .doc = "Layers of the last stage (decoder_last_pipeline_num_layers)."},
    {.name = "account_for_embedding",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The embedding counts as a layer where layers are divided into stages (Megatron's "
            "account_for_embedding_in_pipeline_split)."},
    {.name = "account_for_loss",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The loss counts as a layer there (account_for_loss_in_pipeline_split)."},
    {.name = "pipeline_layout",
     .shapes = {text(), list(kStageLayers)},
     .doc = "The layers of every stage, as numbers or in Megatron's notation, 'Et*3|(tt|)*29|L' "
            "(pipeline_model_parallel_layout); of several stages a rank those that run first "
            "first."},
    {.name = "distributed_optimizer",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Megatron's distributed optimizer, which is ZeRO 1."},
    {.name = "overlap_grad_reduce",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Megatron reduces gradients bucket by bucket while the last backward runs."},
    {.name = "overlap_param_gather",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Megatron gathers stepped weights bucket by bucket while the next forward runs; with "
            "'overlap_grad_reduce' and 'distributed_optimizer'."},
};

constexpr Word kNetworkShares[] = {{"gpu"}, {"node"}};

constexpr Key kNetworkKeys[] = {
    {.name = "bandwidth",
     .shapes = {quantity(Dimension::byte_rate)},
     .doc = "One direction of a network card.",
     .required = true},
    {.name = "per",
     .shapes = {choice(kNetworkShares)},
     .fallback = "gpu",
     .doc = "Whether every GPU has such a card, or all of a node share that bandwidth."},
    {.name = "latency",
     .shapes = {quantity(Dimension::duration)},
     .fallback = "5 us",
     .doc = "Of one message between nodes."},
};

constexpr Word kLinks[] = {{"own"}, {"pcie"}};

constexpr Key kHardwareKeys[] = {
    {.name = "gpu",
     .shapes = {gpu_name()},
     .fallback = "h100-sxm-80gb",
     .doc = "A GPU's slug or alias (`memest gpus` lists them), or a file that describes one."},
    {.name = "count",
     .shapes = {count(1, kMaxRanks)},
     .fallback = "1",
     .doc = "GPUs; as many as `parallelism` asks for where left out."},
    {.name = "gpus_per_node",
     .shapes = {count(1, 1024)},
     .fallback = "8",
     .doc = "GPUs of a node, which share its fast links and its host."},
    {.name = "link_domain",
     .shapes = {count(1, kMaxRanks)},
     .doc =
         "GPUs that their own link joins; where left out, those of a node, or of a rack with such "
         "GPUs (GB200 NVL72: 72)."},
    {.name = "link",
     .shapes = {choice(kLinks)},
     .fallback = "own",
     .doc = "What joins the GPUs of a node: the link of their own, or PCIe alone, as cards without "
            "a bridge."},
    {.name = "network",
     .shapes = {table(kNetworkKeys)},
     .doc = "What joins the nodes; where left out, the cards that are usual with such GPUs."},
    {.name = "nvme",
     .shapes = {quantity(Dimension::byte_rate)},
     .doc = "What a node's NVMe drives together read, or write, where something is offloaded to "
            "them."},
    {.name = "host_memory",
     .shapes = {quantity(Dimension::size)},
     .doc = "What the host of a node has; where left out, what nodes with such GPUs are rented "
            "with (`memest gpus NAME`)."},
    {.name = "price",
     .shapes = {quantity(Dimension::price)},
     .doc = "USD a GPU-hour; from the price list where left out."},
    {.name = "memory",
     .shapes = {quantity(Dimension::size)},
     .doc = "What the allocator may reserve, instead of the GPU's capacity."},
};

constexpr Key kBudgetKeys[] = {
    {.name = "memory", .shapes = {quantity(Dimension::size)}, .doc = "Memory of a GPU."},
    {.name = "step_time", .shapes = {quantity(Dimension::duration)}, .doc = "Time of a step."},
    {.name = "cost_per_billion_tokens",
     .shapes = {quantity(Dimension::money)},
     .doc = "Cost of 10^9 tokens."},
    {.name = "flops",
     .shapes = {quantity(Dimension::flops)},
     .doc = "Executed FLOPs of a step on a GPU."},
    {.name = "margin",
     .shapes = {quantity(Dimension::share)},
     .fallback = "0 %",
     .doc = "Share of each budget that is kept free."},
};

// PYTORCH_CUDA_ALLOC_CONF; parseMaxSplitSize asks for kLargeBuffer, 20 MiB, at least.
constexpr Key kAllocatorKeys[] = {
    {.name = "expandable_segments",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Segments grow instead of multiplying."},
    {.name = "max_split_size_mb",
     .shapes = {count(20, kMaxCount)},
     .doc = "Blocks of that many MiB and more are not cut."},
    {.name = "roundup_power2_divisions",
     .shapes = {count(1, 1024), text()},
     .doc = "Into how many parts the span between two powers of two is cut, to which sizes are "
            "rounded up; or PyTorch's list of them by MiB, \"[256:1,512:2,>:4]\"."},
    {.name = "garbage_collection_threshold",
     .shapes = {number(0, 1)},
     .doc = "Share of what may be reserved above which idle segments are given back."},
};

}  // namespace

std::span<const Key> parallelism_keys() { return kParallelismKeys; }
std::span<const Key> hardware_keys() { return kHardwareKeys; }
std::span<const Key> recorded_hardware_keys() {
  static const std::vector<Key> kKeys = [] {
    std::vector<Key> keys;
    for (const Key& key : kHardwareKeys) {
      const bool of_job = key.name == "count" || key.name == "nvme" || key.name == "host_memory";
      if (!of_job) keys.push_back(key);
    }
    // The GPU of a recording that names none is the one that was recorded.
    std::ranges::find(keys, "gpu", &Key::name)->fallback = "";
    return keys;
  }();
  return kKeys;
}
std::span<const Key> budget_keys() { return kBudgetKeys; }
std::span<const Key> allocator_keys() { return kAllocatorKeys; }

}  // namespace memest
