#include <algorithm>
#include <array>

#include "memest/spec/checkpoint_plan.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/float8_rows.hpp"
#include "plan/layouts/space.hpp"

namespace memest {
namespace {

/// The framework's row, less what the job may not share by: beside Liger's and float8 linears, and
/// around a loss of tiles, only what was recorded is left (reader, check_parallelism.cpp,
/// frameworks/trainer.cpp, second_models/average.cpp), beside adapters what the ledger has formulas
/// of.
FrameworkRow row_of_job(const Job& job) {
  const Implementation& implementation = job.training->implementation;
  FrameworkRow row = row_of(implementation.framework);
  row.fsdp2 = row.fsdp2 && !row.fsdp1_without_adapter;
  const bool in_another =
      !row.sharded_precision.empty() && job.training->recipe.name != row.sharded_precision;
  if (job.model.adapter || row_of(implementation.loop).takes_tiles ||
      job.training->averages_weights || in_another) {
    row.sharer = Sharer::none;
    row.fsdp2 = row.fsdp1_without_adapter = false;
  }
  if (!job.training->replaces_modules()) return row;
  row.sharer = Sharer::none;
  row.fsdp2 = row.fsdp2 && !row_of(implementation.loop).accelerate;
  return row;
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
        row_(row_of_job(job)),
        never_replicates_(shards_all_ranks(row_of(job.training->implementation.framework))),
        replicas_(layout.data * layout.context) {}

  std::vector<Sharing> choices() && {
    if (job_.given.sharing) {
      add(sharing_of(job_.parallelism), true);
    } else {
      add_unsharded();
      add_shared();
      if (row_.fsdp2) add_fsdp2();
      if (row_.fsdp1_without_adapter && replicas_ > 1) add(Sharing::by_flat_units(), true);
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
    switch (row_.sharer) {
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
    const bool cut = in_units() || job_.training->recipe_of_fsdp || never_replicates_;
    if (replicas_ == 1 || !cut) return;
    // A pipeline's replicas take more than shards do and save next to no time: reduced once a step.
    const std::int64_t most = layout_.pipeline > 1 || never_replicates_ ? 1 : layout_.data;
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

  /// Whether FSDP2 is there for weights that are to be gathered in fp8, with equal rows for all.
  [[nodiscard]] bool gathers(const Sharing& sharing) const {
    const auto& float8 = job_.training->float8;
    if (!float8 || !float8->all_gather) return true;
    if (!sharing.in_units()) return false;
    return !uneven_float8_rows(job_, layout_.data / sharing.replicas());
  }

  [[nodiscard]] std::vector<HostOffload> offloads_of(const Sharing& sharing) const {
    constexpr HostOffload kOptimizer{.optimizer = true, .parameters = false};
    constexpr HostOffload kWeights{.optimizer = false, .parameters = true};
    constexpr HostOffload kBoth{.optimizer = true, .parameters = true};
    const bool divided = layout_.ranks() != layout_.data;
    const bool replaced = job_.training->replaces_modules();
    if (job_.model.adapter || job_.model.low_rank || job_.model.quantized || divided || replaced ||
        !steps_on_host(*job_.training))
      return {};
    if (sharing.in_flat_units()) return {};
    if (sharing.in_units()) return {kBoth};
    if (row_.sharer != Sharer::deepspeed || !sharing.in_stages()) return {};
    if (sharing.stage() != ZeroStage::optimizer_gradients_weights) return {kOptimizer};
    return {kWeights, kOptimizer, kBoth};
  }

  const Job& job_;
  const Parallelism& layout_;
  FrameworkRow row_;
  bool never_replicates_;  // all data ranks are FSDP2's
  std::int64_t replicas_;
  std::vector<Sharing> choices_;
};

}  // namespace

std::vector<Sharing> sharing_choices(const Job& job, const Parallelism& layout) {
  return SharingChoices(job, layout).choices();
}

}  // namespace memest
