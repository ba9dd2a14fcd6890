#include <algorithm>
#include <array>

#include "memest/spec/checkpoint_plan.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/framework.hpp"
#include "plan/layouts/space.hpp"

namespace memest {
namespace {

/// What of its framework's row a job may share by: beside Liger's kernels and float8 linears
/// only what was recorded (reader, check_parallelism.cpp).
FrameworkRow row_of_job(const Job& job) {
  const Implementation& implementation = job.training->implementation;
  FrameworkRow row = row_of(implementation.framework);
  if (!job.training->replaces_modules()) return row;
  row.sharer = Sharer::none;
  row.fsdp2 = row.fsdp2 && !row_of(implementation.loop).accelerate;
  return row;
}

/// What DeepSpeed's CPU optimizers step: states as large as the parameters, of gradients no wider
/// than the weights.
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
        replicas_(layout.data * layout.context) {}

  std::vector<Sharing> choices() && {
    if (job_.given.zero) {
      add(sharing_of(job_.parallelism), true);
    } else {
      add_unsharded();
      add_shared();
      if (row_.fsdp2) add_fsdp2();
    }
    return std::move(choices_);
  }

 private:
  /// Whether the precision itself says that weights are gathered unit by unit.
  [[nodiscard]] bool in_units() const { return job_.training->recipe.gathered_units; }

  void add_unsharded() {
    const bool divided = layout_.ranks() != layout_.data;
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
        return add({.zero = ZeroStage::optimizer,
                    .distributed_optimizer = true,
                    .fsdp = {},
                    .offload = {}},
                   true);
      case Sharer::none:
        return;
    }
  }

  /// Alone a GPU shares nothing, but may offload.
  void add_stages() {
    for (const ZeroStage stage : {ZeroStage::optimizer, ZeroStage::optimizer_gradients,
                                  ZeroStage::optimizer_gradients_weights}) {
      add({.zero = stage, .distributed_optimizer = false, .fsdp = {}, .offload = {}},
          replicas_ > 1);
    }
  }

  /// A written recompute is every plan's.
  [[nodiscard]] bool reenters() const {
    return job_.given.recompute && is_reentrant(job_.training->recompute);
  }

  /// With reentrant checkpoints it has no answer (gathers_refusal in memory's fsdp_habits).
  void add_fsdp2() {
    if (reenters()) return;
    if (replicas_ == 1 || !(in_units() || job_.training->recipe_of_fsdp)) return;
    FullySharded fsdp;
    fsdp.reshard = row_.reshard;
    // A pipeline's replicas take more than shards do and save next to no time: reduced once a step.
    const std::int64_t most = layout_.pipeline > 1 ? 1 : layout_.data;
    for (std::int64_t replicas = most; replicas >= 1; --replicas) {
      if (layout_.data % replicas != 0 || replicas == replicas_) continue;
      fsdp.replicate = replicas;
      add({.zero = ZeroStage::optimizer_gradients_weights,
           .distributed_optimizer = false,
           .fsdp = fsdp,
           .offload = {}},
          true);
    }
  }

  /// With every offload that it has. Written replicas that do not divide the ranks are no choice.
  void add(Sharing sharing, bool without) {
    if (sharing.fsdp && layout_.data % sharing.fsdp->replicate != 0) return;
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

  [[nodiscard]] std::vector<HostOffload> offloads_of(const Sharing& sharing) const {
    constexpr HostOffload kOptimizer{.optimizer = true, .parameters = false};
    constexpr HostOffload kWeights{.optimizer = false, .parameters = true};
    constexpr HostOffload kBoth{.optimizer = true, .parameters = true};
    const bool divided = layout_.ranks() != layout_.data;
    const bool replaced = job_.training->replaces_modules();
    if (job_.model.adapter || divided || replaced || !steps_on_host(*job_.training)) return {};
    if (sharing.fsdp) {
      if (sharing.fsdp->version == 1) return {};
      return {kBoth};
    }
    if (row_.sharer != Sharer::deepspeed || sharing.zero == ZeroStage::none) return {};
    if (sharing.zero != ZeroStage::optimizer_gradients_weights) return {kOptimizer};
    return {kWeights, kOptimizer, kBoth};
  }

  const Job& job_;
  const Parallelism& layout_;
  FrameworkRow row_;
  std::int64_t replicas_;
  std::vector<Sharing> choices_;
};

/// 0: the framework's own.
std::int64_t init_of(const Parallelism& layout) {
  return layout.fsdp && layout.fsdp->init ? static_cast<std::int64_t>(*layout.fsdp->init) + 1 : 0;
}

}  // namespace

Sharing sharing_of(const Parallelism& layout) {
  return {layout.zero, layout.distributed_optimizer, layout.fsdp, layout.offload};
}

void share(Parallelism& layout, const Sharing& sharing) {
  layout.zero = sharing.zero;
  layout.distributed_optimizer = sharing.distributed_optimizer;
  layout.fsdp = sharing.fsdp;
  layout.offload = sharing.offload;
}

std::string text_of(const Sharing& sharing) {
  std::string text;
  if (sharing.fsdp) {
    text = "FSDP" + std::to_string(sharing.fsdp->version);
    if (sharing.fsdp->replicate > 1) {
      text += " in " + std::to_string(sharing.fsdp->replicate) + " replicas";
    }
  } else {
    text = "ZeRO " + std::to_string(static_cast<int>(sharing.zero));
  }
  const HostOffload& offload = sharing.offload;
  if (!offload.any()) return text;
  text += offload.optimizer ? ", the optimizer" : ", the weights";
  if (offload.optimizer && offload.parameters) text += " and the weights";
  text += " on the host";
  return text;
}

LayoutKey key_of(const Parallelism& layout) {
  const HostOffload& offload = layout.offload;
  const auto flag = [](bool set) { return std::int64_t{set ? 1 : 0}; };
  return {layout.data,
          layout.tensor,
          layout.context,
          layout.pipeline,
          layout.virtual_stages,
          static_cast<std::int64_t>(layout.schedule),
          layout.first_stage_layers,
          layout.last_stage_layers,
          layout.expert,
          layout.expert_tensor.value_or(0),
          flag(layout.sequence),
          static_cast<std::int64_t>(layout.zero),
          flag(layout.distributed_optimizer),
          layout.fsdp ? layout.fsdp->version : 0,
          layout.fsdp ? layout.fsdp->replicate : 0,
          layout.fsdp ? static_cast<std::int64_t>(layout.fsdp->reshard) : 0,
          init_of(layout),
          flag(layout.fsdp && layout.fsdp->sync_module_states),
          flag(offload.optimizer),
          flag(offload.parameters),
          flag(offload.pinned),
          flag(offload.optimizer_on_nvme),
          flag(offload.parameters_on_nvme),
          flag(layout.overlap_grad_reduce),
          flag(layout.overlap_param_gather)};
}

std::vector<Sharing> sharing_choices(const Job& job, const Parallelism& layout) {
  return SharingChoices(job, layout).choices();
}

}  // namespace memest
