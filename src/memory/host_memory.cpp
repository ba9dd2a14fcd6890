// Buffers as the frameworks make them: DeepSpeed 0.19, runtime/zero/stage_1_and_2.py and stage3.py;
// FSDP2 of PyTorch 2.11, _fsdp_param.py. Page-locked buffers are held to the allocator's statistics
// of recorded runs (torch.cuda.host_memory_stats); the rest is read from the source.
#include "memest/memory/host_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/graph/saved_sizes.hpp"
#include "memest/memory/flattening.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "memest/units/int128.hpp"
#include "memory/loader_memory.hpp"
#include "memory/page_locked.hpp"
#include "memory/states/flat_partitions.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

constexpr const char* kStages12 = "DeepSpeed 0.19, runtime/zero/stage_1_and_2.py";
constexpr const char* kStage3 = "DeepSpeed 0.19, runtime/zero/stage3.py";
constexpr const char* kSwapper = "DeepSpeed 0.19, runtime/swap_tensor: read in the source";
constexpr const char* kFsdp2 = "fully_shard's CPUOffloadPolicy, PyTorch 2.11";

/// Where nothing is known of the nodes that such GPUs are rented in.
constexpr const char* kAsMuchAsTheGpu =
    "as much as the GPUs have, the least that RunPod rents with any "
    "(skypilot-org/skypilot-catalog, catalogs/v5/runpod/vms.csv @02d7ef67)";

using Sizes64 = std::vector<std::int64_t>;

/// DeepSpeed's defaults of zero_optimization.offload_optimizer and offload_param.
constexpr std::int64_t kOptimizerBuffers = 4;           ///< buffer_count
constexpr std::int64_t kParameterBuffers = 5;           ///< buffer_count
constexpr std::int64_t kParameterBuffer = 100'000'000;  ///< buffer_size, elements
constexpr std::int64_t kMostInMemory = 1'000'000'000;   ///< max_in_cpu, elements
/// Alignment of a sub-group's fp32 weights, both Adam moments and gradient (AIO_ALIGNED_BYTES).
constexpr std::int64_t kSwapAlignment = 1024;

/// Rows of every trained tensor, in the order of Module.parameters().
std::vector<const ParameterTensor*> trained_rows(const Inventory& inventory) {
  std::vector<const ParameterTensor*> rows;
  for (const PlacedTensor& placed : tensors_in_order(inventory)) {
    if (placed.buffer || !inventory.parameters[placed.row].trainable) continue;
    rows.push_back(&inventory.parameters[placed.row]);
  }
  return rows;
}

class HostWriter {
 public:
  HostWriter(const Graph& graph, const Job& job)
      : graph_(graph),
        job_(job),
        recipe_(job.training->recipe),
        offload_(job.parallelism.offload),
        sharding_(sharding_of(job)),
        ranks_(job.parallelism.shard_ranks()),
        inventory_(graph.parameters) {}

  HostMemory write() && {
    if (job_.training->offload_activations) write_saved_tensors();
    if (job_.training->offloaded_layers > 0) write_offloaded_layers();
    if (!offload_.any()) return std::move(memory_);
    if (units_of(sharding_) != nullptr) {
      write_fsdp2();
    } else if (zero().shards_weights()) {
      write_stage3();
    } else {
      write_stages12();
      if (flattens_on_host(graph_, job_)) hold_to_flattening();
    }
    return std::move(memory_);
  }

 private:
  enum class Kind : std::uint8_t { pinned, always_pinned, locked, ordinary, nvme };
  struct Purpose {
    const char* name;
    const char* formula;
    const char* source;
    Kind kind = Kind::pinned;
  };

  /// Buffers of `elements` each.
  void add(const Purpose& purpose, const Sizes64& elements, DType type) {
    HostTerm term{.name = purpose.name,
                  .bytes = {},
                  .pinned = {},
                  .on_nvme = purpose.kind == Kind::nvme,
                  .formula = purpose.formula,
                  .source = purpose.source};
    for (const std::int64_t count : elements) {
      const std::int64_t bytes = checked_multiply(count, size_of(type));
      term.bytes += Bytes(bytes);
      const bool pinned =
          purpose.kind == Kind::always_pinned || (purpose.kind == Kind::pinned && offload_.pinned);
      if (pinned && bytes > 0) term.pinned += Bytes(power_of_two_from(bytes));
      if (purpose.kind == Kind::locked) term.pinned += Bytes(bytes);
    }
    if (term.bytes > Bytes()) memory_.terms.push_back(std::move(term));
  }

  [[nodiscard]] const DeepSpeedZero& zero() const {
    const auto* zero = std::get_if<DeepSpeedZero>(&sharding_);
    expect(zero != nullptr, "DeepSpeed and FSDP2 alone offload");
    return *zero;
  }

  /// Adds the optimizer's states for `rows`, whose shapes are those that the optimizer sees.
  void add_states(const std::vector<ParameterTensor>& rows, const char* source) {
    HostTerm term{.name = "optimizer states",
                  .bytes = {},
                  .pinned = {},
                  .on_nvme = offload_.optimizer_on_nvme,
                  .formula = "as the optimizer makes them, of the shards",
                  .source = source};
    for (const OptimizerState& state : job_.training->optimizer.states) {
      for (const ParameterTensor& row : rows) {
        for (const std::int64_t bytes : state_tensors(state, row, recipe_)) {
          term.bytes += Bytes(bytes);
        }
      }
    }
    memory_.terms.push_back(std::move(term));
  }

  /// All of one micro-step's are there between its forward and its backward; the next one's take
  /// the page-locked blocks that it leaves.
  void write_saved_tensors() {
    const bool pinned = job_.training->offload_activations->pin_memory;
    HostTerm term{.name = "saved tensors",
                  .bytes = {},
                  .pinned = {},
                  .on_nvme = false,
                  .formula = "every tensor that a node of autograd saves, parameters too",
                  .source = "torch.autograd.graph.save_on_cpu, PyTorch 2.11"};
    const CheckpointPlan plan = checkpoint_plan_of(*job_.training, graph_.layers());
    for (const auto& [bytes, count] : saved_sizes(graph_, plan)) {
      term.bytes += Bytes(bytes) * count;
      if (pinned) term.pinned += Bytes(power_of_two_from(bytes)) * count;
    }
    memory_.terms.push_back(std::move(term));
  }

  /// OffloadableLayerState.start_offload: torch.empty_like(tensor, pin_memory=True) a tensor; all
  /// layers' stand there behind the forward, and go layer by layer in the backward.
  void write_offloaded_layers() {
    HostTerm term{.name = "saved tensors of layers",
                  .bytes = {},
                  .pinned = {},
                  .on_nvme = false,
                  .formula = "what the layers' nodes save, each once a layer, without parameters",
                  .source = "cpu_offload.py, Transformer Engine 2.11"};
    for (const auto& [bytes, count] : offloaded_sizes(graph_, job_.training->offloaded_layers)) {
      term.bytes += Bytes(bytes) * count;
      term.pinned += Bytes(power_of_two_from(bytes)) * count;
    }
    memory_.terms.push_back(std::move(term));
  }

  static ParameterTensor flat(std::int64_t elements) {
    ParameterTensor row;
    row.name = "flat";
    row.shape = {elements};
    return row;
  }

  void write_stages12() {
    Sizes64 elements;
    for (const ParameterTensor* row : trained_rows(inventory_))
      elements.push_back(elements_of(*row));
    // DeepSpeedZeroOptimizer.__init__ with cpu_offload: single_partition_of_fp32_groups and its
    // gradient, param_buffer_of_bit16_for_cpu_offload_groups and temp_grad_buffer_for_cpu_offload,
    // which is as large as the largest parameter.
    const FlatPartitions partitions(std::move(elements), ranks_);
    const Sizes64 partition{partitions.partition()};
    add({"weights in fp32", "4·⌈Φ/D⌉", kStages12}, partition, DType::fp32);
    add({"updated weights on their way back", "2·⌈Φ/D⌉", kStages12}, partition, recipe_.weights);
    add({"staging of a gradient", "2·Φ1", kStages12}, {partitions.largest()}, recipe_.weights);
    add({"gradients in fp32", "4·⌈Φ/D⌉", kStages12}, partition, DType::fp32);
    // Stage 1 sums them on the device.
    const bool sums_here = zero().stage == ZeroStage::optimizer_gradients;
    if (sums_here && job_.training->gradient_accumulation > 1) {
      Sizes64 whole;
      const std::int64_t rank = deepspeed_rank(job_);
      const auto count = trained_rows(inventory_).size();
      for (std::size_t i = 0; i < count; ++i) {
        // async_accumulate_grad_in_cpu_via_gpu makes a buffer of the whole parameter, also where
        // only some of its elements are in the partition.
        if (partitions.reaches(i, rank)) whole.push_back(partitions.elements_of(i));
      }
      add({"gradients of earlier micro-steps", "2 B an element of every parameter in the partition",
           kStages12},
          whole, recipe_.weights);
    }
    add_states({flat(partitions.partition())}, kStages12);
  }

  /// Before the first step, and before all that the steps keep, the weights and the flat tensor
  /// are there: the moment that takes more counts.
  void hold_to_flattening() {
    HostMemory steps = std::exchange(memory_, {});
    Sizes64 elements;
    for (const ParameterTensor* row : trained_rows(inventory_))
      elements.push_back(elements_of(*row));
    const FlatPartitions partitions(elements, ranks_);
    add({"weights sent to be made flat", "2·Φ, before the first step", kStages12, Kind::ordinary},
        elements, recipe_.weights);
    add({"flat copy of the weights", "2·Φ, before the first step", kStages12, Kind::ordinary},
        {partitions.elements()}, recipe_.weights);
    if (steps.taken() >= memory_.taken()) memory_ = std::move(steps);
  }

  /// Elements that are stepped at once: shards are grouped until they have sub_group_size elements.
  [[nodiscard]] Sizes64 sub_groups(const Sizes64& shards) const {
    Sizes64 groups;
    std::int64_t open = 0;
    // DeepSpeedZeroOptimizer_Stage3._create_fp16_sub_groups closes a group behind the shard that
    // fills it.
    for (const std::int64_t shard : shards) {
      open = checked_add(open, shard);
      if (open < zero().settings.sub_group_size) continue;
      groups.push_back(std::exchange(open, 0));
    }
    if (open > 0) groups.push_back(open);
    return groups;
  }

  void write_weights_on_nvme(std::int64_t all) {
    const std::int64_t in_memory = std::min(all, kMostInMemory);
    add({"shards of the weights in memory", "2·min(Φ/D, 10⁹)", kStage3, Kind::always_pinned},
        {in_memory}, recipe_.weights);
    add({"buffers between NVMe and the weights", "5 of 10⁸ elements", kSwapper, Kind::locked},
        Sizes64(kParameterBuffers, kParameterBuffer), recipe_.weights);
    add({"shards of the weights", "2·(Φ/D − 10⁹)", kSwapper, Kind::nvme}, {all - in_memory},
        recipe_.weights);
  }

  void write_stage3() {
    Sizes64 shards;
    std::int64_t all = 0;
    for (const ParameterTensor* row : trained_rows(inventory_)) {
      // Init._aligned_size pads each parameter to the ranks: 10 elements over 4 ranks are 3 on
      // each.
      shards.push_back(checked_add(elements_of(*row), ranks_ - 1) / ranks_);
      all = checked_add(all, shards.back());
    }
    if (offload_.parameters_on_nvme) {
      write_weights_on_nvme(all);
    } else if (offload_.parameters) {
      add({"shards of the weights", "2·Φ/D", kStage3, Kind::always_pinned}, {all}, recipe_.weights);
      add({"shards as they were cut first", "2·Φ/D, kept by the allocator of page-locked memory",
           "DeepSpeed 0.19, runtime/zero/partition_parameters.py"},
          offload_.pinned ? shards : Sizes64{}, recipe_.weights);
    }
    if (!offload_.optimizer) return;
    const Sizes64 groups = sub_groups(shards);
    const bool on_nvme = offload_.optimizer_on_nvme;
    const Kind kind = on_nvme ? Kind::nvme : Kind::ordinary;
    add({"weights in fp32", "4·Φ/D", kStage3, kind}, groups, DType::fp32);
    add({"reduced gradients", "2·Φ/D", kStage3}, {all}, recipe_.gradients);
    add({"gradients in fp32", "4·Φ/D", kStage3, on_nvme ? Kind::nvme : Kind::pinned}, groups,
        DType::fp32);
    if (on_nvme) {
      const std::int64_t largest = *std::max_element(groups.begin(), groups.end());
      const std::int64_t lines = kSwapAlignment / size_of(DType::fp32);
      // Direct I/O reads and writes whole lines of 1,024 bytes: 256 elements in fp32.
      const std::int64_t aligned = (largest + lines - 1) / lines * lines;
      add({"buffers between NVMe and the step", "4·4·the largest sub-group", kSwapper,
           Kind::locked},
          Sizes64(kOptimizerBuffers, aligned), DType::fp32);
    }
    std::vector<ParameterTensor> rows;
    for (const std::int64_t group : groups) rows.push_back(flat(group));
    add_states(rows, kStage3);
  }

  void write_fsdp2() {
    const Inventory own = sharded_by_rows(inventory_, job_.parallelism);
    Sizes64 shards;
    std::vector<ParameterTensor> rows;
    for (const ParameterTensor* row : trained_rows(own)) {
      shards.push_back(elements_of(*row));
      rows.push_back(*row);
    }
    add({"shards of the weights", "of every parameter ⌈rows/D⌉ rows", kFsdp2}, shards,
        recipe_.weights);
    add({"gradients of the shards", "as the shards", kFsdp2}, shards, recipe_.gradients);
    add_states(rows, kFsdp2);
  }

  const Graph& graph_;
  const Job& job_;
  const Recipe& recipe_;
  const HostOffload& offload_;
  Sharding sharding_;
  std::int64_t ranks_;
  const Inventory& inventory_;
  HostMemory memory_;
};

}  // namespace

std::int64_t power_of_two_from(std::int64_t bytes) {
  // CachingHostAllocatorImpl::allocate, PowerOf2Ceil.
  std::int64_t power = 1;
  while (power < bytes) power = checked_multiply(power, std::int64_t{2});
  return power;
}

Bytes HostMemory::taken() const {
  Bytes sum;
  for (const HostTerm& term : terms) sum += term.on_nvme || term.of_node ? Bytes() : term.taken();
  return sum;
}

Bytes HostMemory::shared() const {
  Bytes sum;
  for (const HostTerm& term : terms) sum += term.of_node ? term.taken() : Bytes();
  return sum;
}

Bytes HostMemory::on_nvme() const {
  Bytes sum;
  for (const HostTerm& term : terms) sum += term.on_nvme ? term.bytes : Bytes();
  return sum;
}

Bytes HostMemory::pinned() const {
  Bytes sum;
  for (const HostTerm& term : terms) sum += term.pinned;
  return sum;
}

HostCapacity host_capacity_of(const Hardware& hardware) {
  if (hardware.host_memory) {
    return {*hardware.host_memory, Provenance::datasheet, std::string(kWrittenHost)};
  }
  const std::int64_t gpus = std::min(hardware.count, hardware.gpus_per_node);
  if (const auto& rented = hardware.gpu.host_memory) {
    return {rented->value * gpus, rented->provenance, rented->source};
  }
  const auto& own = hardware.gpu.nominal_memory;
  return {(own ? own->value : hardware.gpu.capacity.value) * gpus, Provenance::estimated,
          kAsMuchAsTheGpu};
}

Bytes HostNeed::of_node() const { return (of_rank + kHostProcess) * ranks + shared; }

Verdict HostNeed::verdict() const {
  const Bytes needed = of_node();
  if (needed > capacity.bytes) return Verdict::does_not_fit;
  const Bytes offered = capacity.bytes - share_rounded_up(capacity.bytes, kHostKept);
  return needed > offered ? Verdict::too_close_to_call : Verdict::fits;
}

HostNeed host_need_of(Bytes of_rank, const Hardware& hardware) {
  return {of_rank, std::min(hardware.count, hardware.gpus_per_node), host_capacity_of(hardware)};
}

HostNeed host_need_of(Bytes of_rank, const Job& job, const Hardware& hardware) {
  HostNeed need = host_need_of(of_rank, hardware);
  const auto& loading = job.training->data;
  if (loading && loading->shared_dataset) need.shared = loading->dataset_bytes.value_or(Bytes());
  return need;
}

bool loads_into_host(const Job& job) {
  if (!job.training || !job.training->data) return false;
  return job.training->data->sample_bytes || job.training->data->dataset_bytes;
}

bool takes_host_memory(const Job& job) {
  return job.training &&
         (job.parallelism.offload.any() || job.training->saves_on_host() || loads_into_host(job));
}

std::optional<HostMemory> host_memory_of(const Graph& graph, const Job& job) {
  if (!takes_host_memory(job)) return std::nullopt;
  HostMemory memory;
  if (job.parallelism.offload.any() || job.training->saves_on_host()) {
    memory = HostWriter(graph, job).write();
  }
  if (!loads_into_host(job)) return memory;
  for (HostTerm& term : loader_terms(job)) memory.terms.push_back(std::move(term));
  return memory;
}

}  // namespace memest
