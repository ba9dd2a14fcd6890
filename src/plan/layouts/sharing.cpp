#include <algorithm>
#include <array>

#include "memest/spec/dtype.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/coded_rows.hpp"
#include "memest/spec/parallel/float8_rows.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "plan/layouts/space.hpp"

namespace memest {
namespace {

/// How a search may share a job.
struct Ways {
  Sharer sharer = Sharer::none;
  bool rows = false;      ///< FSDP2's shards
  bool replicas = false;  ///< of them
  bool flat = false;      ///< FSDP1's shards
};

/// FSDP2 takes torchao's codes, and bitsandbytes' of 4 bits in accelerate's loops, of a type that
/// it does not cast as it gathers (reader/frameworks/compression.cpp).
bool shards_codes(const Job& job) {
  const QuantizedWeights& quantized = *job.model.quantized;
  if (row_of(quantized.format).of_torchao()) return true;
  const TrainingSpec& training = *job.training;
  const Recipe& recipe = training.recipe_of_fsdp ? *training.recipe_of_fsdp : training.recipe;
  const bool cast =
      quantized.in_shards() && recipe.casts_gathered() && quantized.storage != recipe.compute;
  return row_of(training.implementation.loop).accelerate &&
         row_of(quantized.format).in_params_4bit() && !cast;
}

/// FSDP2 shards what LoRA adds, in the Trainer within the layers alone
/// (reader/job/check_parallelism.cpp, reader/frameworks/unrecorded.cpp).
bool shards_adapter(const Job& job) {
  const Adapter& adapter = *job.model.adapter;
  const bool within = adapter.whole_modules.empty() && !adapts(adapter, "lm_head");
  return adapter.kind == AdapterKind::lora && (!job.model.quantized || shards_codes(job)) &&
         (within || !row_of(job.training->implementation.loop).accelerate);
}

/// Those of the framework, less what the reader refuses beside the job: beside Liger's kernels,
/// float8 linears and adapters, and around a loss of tiles, only what was recorded is left
/// (check_parallelism.cpp, frameworks/trainer.cpp, second_models/average.cpp), around images none
/// (multimodal/images.cpp).
Ways ways_of(const Job& job) {
  const TrainingSpec& training = *job.training;
  const FrameworkRow& row = row_of(training.implementation.framework);
  const LoopRow& loop = row_of(training.implementation.loop);
  const bool in_another =
      !row.sharded_precision.empty() && training.recipe.name != row.sharded_precision;
  if (training.averages_weights || in_another || job.model.vision) return {};
  const bool adapted = job.model.adapter.has_value();
  Ways ways{.sharer = row.sharer,
            .rows = row.fsdp2,
            .replicas = !shards_all_ranks(row) && !row.fsdp1_without_adapter && !loop.takes_tiles,
            .flat = row.fsdp1_without_adapter && !adapted};
  ways.rows = ways.rows && !ways.flat && (!adapted || shards_adapter(job));
  if (training.replaces_modules()) ways.rows = ways.rows && !loop.accelerate;
  // DeepSpeed's engine has adapters and TRL's loss over 16-bit weights with a copy in fp32, which
  // is the precision of a spec that writes 'zero'.
  if (adapted || loop.takes_tiles || training.replaces_modules()) ways.sharer = Sharer::none;
  return ways;
}

/// Whether DeepSpeed's CPU optimizers step it: states as large as the parameters, gradients as wide
/// as the weights or narrower.
bool steps_on_host(const TrainingSpec& training) {
  const auto& states = training.optimizer.states;
  return size_of(training.recipe.gradients) <= size_of(training.recipe.weights) &&
         std::all_of(states.begin(), states.end(), [](const OptimizerState& state) {
           return !state.on_host &&
                  (state.shape == StateShape::like_parameter || state.shape == StateShape::scalar);
         });
}

class SharingChoices {
 public:
  SharingChoices(const Job& job, const Parallelism& layout)
      : job_(job),
        layout_(layout),
        row_(row_of(job.training->implementation.framework)),
        ways_(ways_of(job)),
        never_replicates_(shards_all_ranks(row_)),
        replicas_(layout.data * layout.context) {}

  std::vector<Sharing> choices() && {
    if (job_.given.sharing) {
      add(sharing_of(job_.parallelism), true);
    } else {
      add_unsharded();
      add_shared();
      if (ways_.rows) add_fsdp2();
      if (ways_.flat && replicas_ > 1) add(Sharing::by_flat_units(), true);
    }
    return std::move(choices_);
  }

 private:
  /// Whether the precision itself says that weights are gathered unit by unit.
  [[nodiscard]] bool in_units() const { return job_.training->recipe.casts_gathered(); }

  void add_unsharded() {
    // torchtitan refuses plain DDP beside any other dimension ("DDP has not supported > 1D
    // parallelism").
    const bool divided = layout_.ranks() != layout_.data;
    if (replicas_ > 1 && never_replicates_) return;
    if (replicas_ > 1 && (in_units() || (divided && !row_.replicates_divided_models))) return;
    add({}, true);
  }

  void add_shared() {
    switch (ways_.sharer) {
      case Sharer::deepspeed:
      case Sharer::zero_stages:
        if (!in_units()) add_stages();
        return;
      case Sharer::megatron:
        if (replicas_ == 1) return;
        return add(Sharing::by_distributed_optimizer(), true);
      case Sharer::nanotron:
        // ZeroDistributedOptimizer is there for one replica too, and divides nothing.
        if (replicas_ > 1) add(Sharing::by_stage(ZeroStage::optimizer), true);
        return;
      case Sharer::none:
        return;
    }
  }

  /// Alone a GPU shares nothing, but may offload.
  void add_stages() {
    for (const ZeroStage stage : {ZeroStage::optimizer, ZeroStage::optimizer_gradients,
                                  ZeroStage::optimizer_gradients_weights}) {
      add(Sharing::by_stage(stage), replicas_ > 1);
    }
  }

  /// A written recompute is every plan's.
  [[nodiscard]] bool reenters() const {
    return job_.given.recompute && is_reentrant(job_.training->recompute);
  }

  /// Adds none under reentrant checkpoints (gathers_refusal in memory's fsdp_habits).
  void add_fsdp2() {
    if (reenters()) return;
    // Where nothing else shards, FSDP2 does under every precision.
    const bool cut = in_units() || job_.training->recipe_of_fsdp || ways_.sharer == Sharer::none;
    if (replicas_ == 1 || !cut) return;
    // A pipeline's replicas take more than shards do and save next to no time: reduced once a step.
    const std::int64_t most = layout_.pipeline > 1 || !ways_.replicas ? 1 : layout_.data;
    for (std::int64_t replicas = most; replicas >= 1; --replicas) {
      // As many replicas as ranks would shard nothing.
      if (layout_.data % replicas != 0 || replicas == replicas_) continue;
      add(Sharing::by_rows(row_.reshard, replicas), true);
    }
  }

  /// Adds `sharing` with each of its offloads, unless written replicas do not divide the ranks.
  void add(Sharing sharing, bool without) {
    if (layout_.data % sharing.replicas() != 0 || !gathers(sharing)) return;
    const std::vector<HostOffload> legal = offloads_of(sharing);
    if (job_.given.offload) {
      const HostOffload& written = job_.parallelism.offload;
      const bool is_legal = std::ranges::any_of(legal, [&](const HostOffload& other) {
        return other.optimizer == written.optimizer && other.parameters == written.parameters;
      });
      sharing.offload = written;
      if (written.any() ? is_legal : without) choices_.push_back(sharing);
      return;
    }
    if (without) choices_.push_back(sharing);
    for (const HostOffload& offload : legal) {
      sharing.offload = offload;
      choices_.push_back(sharing);
    }
  }

  /// Whether FSDP2 is there for weights that are to be gathered in fp8, with equal rows for all,
  /// and torchao's codes divide among its ranks.
  [[nodiscard]] bool gathers(const Sharing& sharing) const {
    const std::int64_t ranks = layout_.data / sharing.replicas();
    if (sharing.in_units() && uneven_codes(job_, ranks)) return false;
    const auto& float8 = job_.training->float8;
    if (!float8 || !float8->all_gather) return true;
    return sharing.in_units() && !uneven_float8_rows(job_, ranks);
  }

  [[nodiscard]] std::vector<HostOffload> offloads_of(const Sharing& sharing) const {
    constexpr HostOffload kOptimizer{.optimizer = true, .parameters = false};
    constexpr HostOffload kWeights{.optimizer = false, .parameters = true};
    constexpr HostOffload kBoth{.optimizer = true, .parameters = true};
    const bool divided = layout_.ranks() != layout_.data;
    const bool replaced =
        job_.training->replaces_modules() || row_of(job_.training->implementation.loop).takes_tiles;
    if (job_.model.adapter || job_.model.low_rank || job_.model.quantized || divided || replaced ||
        !steps_on_host(*job_.training))
      return {};
    if (sharing.in_flat_units()) return {};
    if (sharing.in_units()) return {kBoth};
    if (ways_.sharer != Sharer::deepspeed || !sharing.in_stages()) return {};
    if (sharing.stage() != ZeroStage::optimizer_gradients_weights) return {kOptimizer};
    return {kWeights, kOptimizer, kBoth};
  }

  const Job& job_;
  const Parallelism& layout_;
  const FrameworkRow& row_;
  Ways ways_;
  bool never_replicates_;  // all data ranks are FSDP2's
  std::int64_t replicas_;
  std::vector<Sharing> choices_;
};

}  // namespace

std::vector<Sharing> sharing_choices(const Job& job, const Parallelism& layout) {
  return SharingChoices(job, layout).choices();
}

}  // namespace memest
