#include "memory/sharding/share_cutter.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/optimizer/parameter_groups.hpp"
#include "memory/sharding/fsdp_habits.hpp"

namespace memest {

ShareCutter::ShareCutter(const Model& model, ModelPlacement& placement, Recorder& recorder)
    : model_(model),
      placement_(placement),
      recorder_(recorder),
      whole_(model.tensors.parameters.size()),
      held_(whole_.size()) {}

std::int64_t ShareCutter::whole_elements(std::size_t parameter) const {
  std::int64_t elements = 1;
  for (const std::int64_t size : row(parameter).shape) elements = checked_multiply(elements, size);
  return elements;
}

// accelerate 1.15: fsdp2_prepare_model names the last parameter, the input embedding's and the
// head's weights; Accelerator._prepare_fsdp2 the last one of the optimizer's last group.
std::vector<bool> ShareCutter::held_by_accelerate() const {
  std::vector<bool> held(whole_.size());
  bool looked_up = false;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (model_.tensors.parameters[i].layer > 0) continue;
    const bool is_table = row(i).role == ParameterRole::embedding;
    const bool is_first_table = is_table && !std::exchange(looked_up, looked_up || is_table);
    held[i] = is_first_table || row(i).role == ParameterRole::matmul;
  }
  if (!held.empty()) held.back() = true;
  const LoopHabits& habits = loop_habits_of(model_.job.training->implementation);
  const auto groups = trained_groups(model_.shares, recorder_.timeline(), habits);
  for (const ParameterGroup& group : std::views::reverse(groups)) {
    if (group.empty()) continue;
    held[group.back().parameter] = true;
    break;
  }
  return held;
}

/// FSDPParam._init_sharded_param; from there to the host where that keeps it.
StorageId ShareCutter::place_share(std::size_t parameter) {
  if (!placement_.keeps_weights_on_host()) return placement_.place(parameter);
  placement_.place_whole(parameter, model_.tensors.parameters[parameter].elements).drop();
  return kNoStorage;
}

/// _move_states_to_device of a unit's parameters and buffers, then FSDPParamGroup's constructor.
void ShareCutter::cut(const ShardedUnit& unit) {
  for (const std::uint32_t parameter : unit.parameters) {
    if (whole_[parameter].is_of_storage()) continue;
    whole_[parameter] = placement_.place_whole(parameter, whole_elements(parameter));
  }
  const bool on_host = shard_init(model_.job) == ShardInit::host;
  if (unit.is_root && on_host) placement_.place_buffers();
  for (const std::uint32_t parameter : unit.parameters) place_share(parameter);
  for (const std::uint32_t parameter : unit.parameters) {
    if (!held_[parameter]) whole_[parameter].drop();
  }
}

std::vector<ShardedUnit> units_as_wrapped(const ShareCutter::Model& model,
                                          const Timeline& timeline) {
  std::vector<ShardedUnit> units = sharded_units(model.job, model.shares, model.order, timeline);
  std::stable_partition(units.begin(), units.end(), [&timeline](const ShardedUnit& unit) {
    return timeline.places[unit.first].layer > 0 && !unit.is_root;
  });
  return units;
}

void ShareCutter::cut() {
  if (row_of(model_.job.training->implementation.loop).accelerate) held_ = held_by_accelerate();
  if (shard_init(model_.job) == ShardInit::device) {
    for (const auto& [is_buffer, i] : model_.tensors.order) {
      if (is_buffer) {
        placement_.place_buffer(i);
      } else {
        whole_[i] = placement_.place_whole(i, whole_elements(i));
      }
    }
  }
  for (const ShardedUnit& unit : units_as_wrapped(model_, recorder_.timeline())) cut(unit);
  for (HeldStorage& whole : whole_) whole.drop();
}

// torch.distributed.tensor.distribute_tensor: Shard._shard_tensor pads each chunk of too few rows,
// and scatters into a tensor of the share's.
StorageId ShareCutter::load_tensor(std::size_t parameter) {
  const HeldStorage whole = placement_.place_whole(parameter, whole_elements(parameter));
  const std::int64_t elements = model_.tensors.parameters[parameter].elements;
  const std::int64_t full = whole_elements(parameter) / elements;
  HeldVector padded;
  for (std::int64_t chunk = full; chunk < model_.job.parallelism.shard_ranks(); ++chunk) {
    padded.push_back(placement_.place_whole(parameter, elements));
  }
  return place_share(parameter);
}

// accelerate 1.15, fsdp2_load_full_state_dict.
void ShareCutter::load() {
  const auto& parameters = model_.tensors.parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) load_tensor(i);
  HeldStorage tied;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (row(i).role == ParameterRole::embedding && row(i).output_head) {
      tied = recorder_.adopt(load_tensor(i));
    }
  }
  placement_.place_buffers();
}

}  // namespace memest
