// A job: everything a spec file says, read, checked and complete.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "memest/spec/allocator.hpp"
#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/margin.hpp"
#include "memest/spec/inference.hpp"
#include "memest/spec/model.hpp"
#include "memest/spec/network.hpp"
#include "memest/spec/parallel/parallelism.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/spec/training.hpp"

namespace memest {

struct Hardware {
  GpuSpec gpu;
  bool assumed =
      false;  ///< the spec named no GPU; `gpu` is the default one, and the answer says so
  std::int64_t count = 1;
  std::int64_t gpus_per_node = 8;
  std::optional<std::int64_t> link_domain;  ///< from the spec, else that of the GPU type
  std::optional<Network> network;           ///< between nodes; from the spec
  std::optional<BytesPerSecond> nvme;       ///< of a node's drives together, either way
  std::optional<Bytes> host_memory;     ///< of a node; where left out that of nodes with such GPUs
  std::optional<DollarsPerHour> price;  ///< one GPU; from the spec, else from the price list
  std::string price_source;             ///< empty where there is no price
  std::optional<Bytes> memory;          ///< what the allocator may reserve; overrides the capacity,
                                        ///< overheads are not taken off

  /// GPUs that reach each other through their own link: a node's, or a rack's where the link joins
  /// nodes (NVL72).
  [[nodiscard]] std::int64_t linked_gpus() const {
    if (link_domain) return *link_domain;
    const bool joins_nodes = gpu.link_bandwidth && gpu.link_domain;
    return joins_nodes ? std::max(gpus_per_node, gpu.link_domain->value) : gpus_per_node;
  }
};

/// Limits to which `memest check` holds the file.
struct Budget {
  std::optional<Bytes> memory;  ///< a GPU
  std::optional<Seconds> step_time;
  std::optional<Dollars> cost_per_billion_tokens;
  std::optional<Flops> flops;  ///< executed FLOPs a step, a GPU
  double margin = 0;           ///< fraction kept free of each budget: 0.05 for `5 %`
};

/// Keys that the file wrote itself (the reader sets these): a search keeps them, varies the rest.
struct WrittenKeys {
  bool global_batch = false;  ///< a search keeps it and chooses micro_batch
  bool micro_batch = false;
  bool recompute = false;
  bool sharing = false;  ///< `parallelism.zero`, `distributed_optimizer` or `fsdp`
  bool tensor = false;
  bool sequence = false;
  bool context = false;
  bool pipeline = false;
  bool expert = false;
  bool schedule = false;       ///< or `virtual_stages`
  bool stage_layers = false;   ///< how many layers a stage has, by any of the keys for that
  bool listed_stages = false;  ///< `pipeline_layout`
  bool offload = false;
  bool overlap = false;  ///< `overlap_grad_reduce` or `overlap_param_gather`
};

struct Job;
/// The batches that a step of so many micro-steps takes from each rank's loader.
TakenBatches taken_batches(const TrainingSpec& training, const Parallelism& parallelism,
                           std::int64_t micro_steps);
/// Which recorded runs are like the job's.
RunScale scale_of(const Job& job);

struct Job {
  std::string name;  ///< the file's name, for people
  ModelSpec model;
  std::optional<TrainingSpec> training;    ///< one of the two, or none where the file describes
  std::optional<InferenceSpec> inference;  ///< a model alone
  Parallelism parallelism;
  Hardware hardware;
  Budget budget;
  AllocatorSettings allocator;
  /// Margins of estimates of its implementation; from recorded runs, by the reader.
  ScaledMargins scaled_margins;
  /// Margins from runs that others published, of any release; by the reader.
  SourceMargins source_margins;
  /// The margins of runs as large as this job's.
  [[nodiscard]] const MethodMargins& margins() const;
  /// Sequences a step over all GPUs: micro_batch · gradient_accumulation · data.
  [[nodiscard]] std::int64_t global_batch() const;
  /// The pass that training or inference runs; null where the file describes a model alone.
  [[nodiscard]] const ForwardSpec* forward() const;
  /// None in inference.
  [[nodiscard]] Recompute recompute() const;
  /// Layers that the embedding counts for where the model is cut into stages, and the head as well:
  /// one under torchtitan, whose stages are given as much of both; under Megatron-core none, unless
  /// the layout says so.
  [[nodiscard]] std::int64_t end_layers() const;
  /// Lays the training over other ranks: sets their number, the recipe where FSDP has its own, and
  /// what DeepSpeed's stages do with an adapter.
  void lay_over(const Parallelism& layout);
  /// The type in which DeepSpeed trains the adapter, and how its layers are recomputed.
  void settle_adapter();
  /// Whether DeepSpeed leaves adapters in the type to which peft has widened them.
  [[nodiscard]] bool keeps_widened_adapters() const;
  /// How so many layers are cut into the pipeline's stages, or into another layout's.
  [[nodiscard]] StageSplit stage_split(std::int64_t layers) const {
    return stage_split(layers, parallelism);
  }
  [[nodiscard]] StageSplit stage_split(std::int64_t layers, const Parallelism& layout) const;
  WrittenKeys given;
};

}  // namespace memest
