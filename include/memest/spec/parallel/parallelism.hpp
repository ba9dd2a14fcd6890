// How one model is laid over many GPUs. Ranks multiply: data · tensor · pipeline · context GPUs;
// expert ranks lie inside the data-parallel ones, or where every expert is whole inside those and
// the tensor-parallel ones.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "memest/units/quantity.hpp"

namespace memest {

/// DDP's own choices (torch.nn.parallel.DistributedDataParallel).
struct DataParallelBuckets {
  Bytes bucket_cap = Bytes(25 * kMiB);  ///< bucket_cap_mb
  bool gradient_as_bucket_view = false;
  std::optional<bool> finds_unused = {};  ///< find_unused_parameters; absent: the loop's own habit

  friend auto operator<=>(const DataParallelBuckets&, const DataParallelBuckets&) = default;
};

/// The states that ZeRO shards over the data-parallel ranks.
enum class ZeroStage : std::uint8_t {
  none,                        ///< 0: everything replicated
  optimizer,                   ///< 1: optimizer states and master weights
  optimizer_gradients,         ///< 2: and gradients
  optimizer_gradients_weights  ///< 3: and weights
};

/// Which units of FSDP give their gathered weights back after the forward.
enum class Reshard : std::uint8_t {
  always,
  all_but_last,  ///< torchtitan's `default`: the last unit's backward comes at once; under a
                 ///< pipeline none
  never
};
/// "always", "default", "never".
std::string_view name_of(Reshard reshard);

/// The device that holds a model's weights when FSDP begins to shard them.
enum class ShardInit : std::uint8_t {
  meta,   ///< nowhere: what the rank keeps is made on its GPU, unit by unit
  host,   ///< in the host's memory: a unit at a time goes to the GPU, to be cut there
  device  ///< on the GPU, all of them
};
/// "meta", "host", "device".
std::string_view name_of(ShardInit init);

/// torch.distributed.fsdp: FullyShardedDataParallel (1) or fully_shard (2), a unit a block.
struct FullySharded {
  int version = 2;
  Reshard reshard = Reshard::always;
  std::int64_t replicate = 1;          ///< replicas of the sharded model (HSDP)
  std::optional<ShardInit> init = {};  ///< absent: the framework's own habit
  bool sync_module_states = false;     ///< FSDP1 sends the first rank's weights to all
  bool trained_apart = false;          ///< FSDP1: trained leaf modules are units (peft's policy)
  bool no_sync = false;                ///< FSDP1: whole gradients until a step's last micro-step

  friend auto operator<=>(const FullySharded&, const FullySharded&) = default;
};

/// The order in which a pipeline's stages run their micro-steps.
enum class Schedule : std::uint8_t {
  one_f_one_b,
  interleaved,
  zero_bubble,
  zbv,
  dual_pipe_v,
  gpipe
};
/// "1f1b", "interleaved", "zero-bubble", "zbv", "dualpipe-v", "gpipe".
std::string_view name_of(Schedule schedule);

/// DeepSpeed's memory settings in its section `zero_optimization`, in elements, with its defaults
/// (DeepSpeed 0.19).
struct DeepSpeed {
  std::int64_t reduce_bucket_size = 500'000'000;
  /// Stages 1 and 2 have a second bucket, stage 3 streams of its own; absent: in stage 3 alone.
  std::optional<bool> overlap_comm = {};
  bool contiguous_gradients = true;
  std::int64_t prefetch_bucket_size = 50'000'000;    ///< stage3_prefetch_bucket_size
  std::int64_t persistence_threshold = 100'000;      ///< stage3_param_persistence_threshold
  std::int64_t max_live_parameters = 1'000'000'000;  ///< stage3_max_live_parameters
  std::int64_t max_reuse_distance = 1'000'000'000;   ///< stage3_max_reuse_distance
  bool zero_init = true;  ///< deepspeed.zero.Init cuts weights as they are made
  std::int64_t sub_group_size = 1'000'000'000;
  /// Which are written as `auto`. transformers fills them in for the model that it trains.
  bool auto_prefetch = false;
  bool auto_persistence = false;

  /// Those of an engine that transformers does not know of, which takes DeepSpeed's defaults for
  /// `auto` (runtime/config_utils.py, DeepSpeedConfigModel).
  [[nodiscard]] DeepSpeed without_auto() const {
    const DeepSpeed defaults;
    DeepSpeed other = *this;
    if (auto_prefetch) other.prefetch_bucket_size = defaults.prefetch_bucket_size;
    if (auto_persistence) other.persistence_threshold = defaults.persistence_threshold;
    return other;
  }

  friend auto operator<=>(const DeepSpeed&, const DeepSpeed&) = default;
};

/// DeepSpeed's OffloadDeviceEnum (runtime/zero/offload_config.py).
enum class OffloadDevice : std::uint8_t { none, cpu, nvme };
/// "none", "cpu", "nvme".
std::string_view name_of(OffloadDevice device);

/// States that lie in the host's memory until needed, or behind it on the node's NVMe: DeepSpeed's
/// offload_optimizer and offload_param, and FSDP2's CPUOffloadPolicy, which is both.
struct HostOffload {
  bool optimizer = false;   ///< states and master weights; the step runs on the host
  bool parameters = false;  ///< the rank's shards of the weights
  bool pinned = true;       ///< pin_memory: page-locked, so that copies run beside other work
  bool optimizer_on_nvme = false;   ///< with `optimizer`: the host has a few buffers
  bool parameters_on_nvme = false;  ///< with `parameters`: all but the first 10^9 elements

  [[nodiscard]] bool any() const { return optimizer || parameters; }
  [[nodiscard]] OffloadDevice device_of_optimizer() const {
    if (!optimizer) return OffloadDevice::none;
    return optimizer_on_nvme ? OffloadDevice::nvme : OffloadDevice::cpu;
  }
  [[nodiscard]] OffloadDevice device_of_parameters() const {
    if (!parameters) return OffloadDevice::none;
    return parameters_on_nvme ? OffloadDevice::nvme : OffloadDevice::cpu;
  }
  friend auto operator<=>(const HostOffload&, const HostOffload&) = default;
};

/// How attention over a sequence that lies on several ranks comes by the rest of it.
enum class ContextExchange : std::uint8_t {
  ring,       ///< keys and values go round, one rank's a step
  all_to_all  ///< every rank gets the whole sequence of some heads (Ulysses)
};
/// "ring", "all-to-all".
std::string_view name_of(ContextExchange exchange);

/// The part of a layout that decides the operations of a rank's layers: who shares each layer, not
/// how many copies there are nor which layers a rank has.
struct LayerDivision {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  std::int64_t expert = 1;
  bool whole_experts = false;
  bool sequence = false;
  bool in_units = false;   ///< of FSDP, whose recipe may be another
  bool in_pieces = false;  ///< of DeepSpeed's ZeRO 3, which has linear layers of its own

  friend auto operator<=>(const LayerDivision&, const LayerDivision&) = default;
};

/// Equal layouts differ in nothing: a search keeps what it knows by them.
struct Parallelism {
  std::int64_t data = 1;  ///< replicas and shards
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  std::int64_t expert = 1;
  /// Ranks that an expert is cut over (Megatron's expert_tensor_parallel_size); none given:
  /// `tensor`.
  std::optional<std::int64_t> expert_tensor = {};
  bool sequence = false;  ///< norms and residuals in shards of the sequence, beside `tensor`
  Schedule schedule = Schedule::one_f_one_b;
  std::int64_t virtual_stages = 1;  ///< a rank of an interleaved pipeline
  /// Layers of the first and last rank's stages (Megatron's decoder_first_pipeline_num_layers); 0:
  /// as many as the others'.
  std::int64_t first_stage_layers = 0;
  std::int64_t last_stage_layers = 0;
  /// An end of the model counts as a layer where layers are divided
  /// (account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split).
  bool account_for_embedding = false;
  bool account_for_loss = false;
  /// Layers of each stage in the model's order (pipeline_model_parallel_layout): the first chunks
  /// of all ranks, then the second ones. Empty: as the keys above say.
  std::vector<std::int64_t> stage_layers = {};
  ZeroStage zero = ZeroStage::none;
  DataParallelBuckets ddp = {};
  DeepSpeed deepspeed = {};  ///< where `zero` is DeepSpeed's
  std::optional<FullySharded> fsdp = {};
  HostOffload offload = {};
  bool distributed_optimizer = false;  ///< Megatron's; `zero` says 1
  bool overlap_grad_reduce = false;    ///< Megatron's: gradients travel beside the last backward
  bool overlap_param_gather = false;   ///< Megatron's: weights beside the first forward
  bool init_on_meta_device = false;    ///< Megatron-FSDP's: layers are made bucket by bucket

  /// Whether stages of an equal number of layers were not asked for.
  [[nodiscard]] bool divides_unequally() const {
    return first_stage_layers + last_stage_layers > 0 || account_for_embedding ||
           account_for_loss || !stage_layers.empty();
  }
  /// Whether weights lie in FSDP2's shares of rows, or in FSDP1's of flat tensors.
  [[nodiscard]] bool shards_rows() const { return fsdp && fsdp->version == 2; }
  [[nodiscard]] bool shards_flat() const { return fsdp && fsdp->version == 1; }
  /// Whether DeepSpeed's ZeRO 3 cuts weights as they are made (deepspeed.zero.Init). The engine
  /// then casts none, and what peft has widened stays so.
  [[nodiscard]] bool cuts_weights_as_made() const {
    return zero == ZeroStage::optimizer_gradients_weights && !fsdp && deepspeed.zero_init;
  }
  [[nodiscard]] LayerDivision division() const;
  /// All GPUs of the job.
  [[nodiscard]] std::int64_t ranks() const;
  /// The GPUs that share one copy of the model.
  [[nodiscard]] std::int64_t ranks_of_a_model() const;
  /// GPUs whose gradients are summed and whose states are shards of one another; the context ranks
  /// are among them.
  [[nodiscard]] std::int64_t shard_ranks() const;
  /// Those that have an expert, whole ones of tensor ranks too, and those among them that share its
  /// weights.
  [[nodiscard]] std::int64_t ranks_of_experts() const {
    return shard_ranks() * (whole_experts() ? tensor : 1);
  }
  [[nodiscard]] std::int64_t expert_shard_ranks() const { return ranks_of_experts() / expert; }
  /// Whether more share them than a rank has of so many experts: each has a part of the columns of
  /// all (torchtitan 0.2.2, apply_fsdp: Shard(1)).
  [[nodiscard]] bool cuts_columns(std::int64_t experts) const {
    return expert > 1 && ranks_of_experts() > experts;
  }
  /// When `fsdp` reshards: under a pipeline torchtitan's default is never. `fsdp` is present.
  [[nodiscard]] Reshard reshard() const;
  /// Whether every rank has whole experts, though it has parts of all else.
  [[nodiscard]] bool whole_experts() const { return tensor > 1 && expert_tensor == 1; }
  /// Ranks among which experts are shared and copied: data · context, and `tensor` of whole
  /// experts.
  [[nodiscard]] std::int64_t expert_ranks() const;
  /// Replicas of an expert: what of these the expert-parallel ranks leave.
  [[nodiscard]] std::int64_t expert_data_ranks() const;

  friend auto operator<=>(const Parallelism&, const Parallelism&) = default;
};

}  // namespace memest
