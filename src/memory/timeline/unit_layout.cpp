#include "unit_layout.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace memest {

/// torchtitan 0.2.2 (apply_fsdp); accelerate 1.15 (fsdp2_prepare_model); fully_shard on every block
/// and on the model.
UnitLayout layout_of(const Implementation& implementation) {
  if (implementation.framework == Framework::torchtitan) return {true, false, true};
  return {implementation.loop == LoopKind::trainer, true, false};
}

namespace {

std::string module_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

class UnitWriter {
 public:
  UnitWriter(const Job& job, const Inventory& inventory, const ForwardOrder& order,
             const Timeline& timeline)
      : inventory_(inventory),
        order_(order),
        timeline_(timeline),
        layout_(layout_of(job.training->implementation)),
        reshard_(job.parallelism.fsdp->reshard),
        last_(static_cast<std::uint32_t>(timeline.places.size()) - 1),
        head_(last_ - 1) {}

  std::vector<ShardedUnit> write() && {
    ShardedUnit input = unit_at(0);
    ShardedUnit tail = unit_at(head_);
    // accelerate keeps the tail, torchtitan does unless told otherwise.
    tail.reshards = reshard_ == Reshard::always && !layout_.loss_in_model;
    ShardedUnit root;
    root.last = layout_.loss_in_model ? last_ : head_;
    root.reshards = false;
    root.parameters = parameters_of_layer(0);
    if (layout_.ends_apart) take_ends(root, input, tail);
    add(std::move(input));
    for (std::uint32_t i = 0; i <= last_; ++i) {
      if (timeline_.places[i].layer == 0) continue;
      ShardedUnit layer = unit_at(i);
      layer.parameters = parameters_of_layer(timeline_.places[i].layer);
      layer.uses = uses_at(i);
      add(std::move(layer));
    }
    add(std::move(tail));
    give_root_the_rest(root);
    units_.push_back(std::move(root));
    for (ShardedUnit& unit : units_) unit.reduces_at_end = unit.first == 0;
    return std::move(units_);
  }

 private:
  [[nodiscard]] ShardedUnit unit_at(std::uint32_t instance) const {
    ShardedUnit unit;
    unit.first = unit.last = instance;
    unit.reshards = reshard_ != Reshard::never;
    return unit;
  }

  void add(ShardedUnit unit) {
    if (!unit.parameters.empty()) units_.push_back(std::move(unit));
  }

  [[nodiscard]] const ParameterTensor& row(std::uint32_t parameter) const {
    return inventory_.parameters[timeline_.parameters[parameter].row];
  }

  /// 0: outside the layers. As their modules register them.
  [[nodiscard]] std::vector<std::uint32_t> parameters_of_layer(std::int64_t layer) const {
    std::vector<std::uint32_t> list;
    for (std::uint32_t i = 0; i < timeline_.parameters.size(); ++i) {
      if (timeline_.parameters[i].layer == layer) list.push_back(i);
    }
    return list;
  }

  [[nodiscard]] std::vector<std::uint32_t> uses_at(std::uint32_t instance) const {
    std::vector<std::uint32_t> list;
    for (std::uint32_t i = 0; i < order_.parameters().size(); ++i) {
      if (order_.parameters()[i].instance == instance) list.push_back(i);
    }
    return list;
  }

  /// The table that token ids are looked up in is the first that is registered, and the first that
  /// the model reads.
  void take_ends(ShardedUnit& root, ShardedUnit& input, ShardedUnit& tail) const {
    const auto is_table = [this](std::uint32_t i) {
      return row(i).role == ParameterRole::embedding;
    };
    const auto table = std::find_if(root.parameters.begin(), root.parameters.end(), is_table);
    const bool shared = row(*table).output_head && layout_.gathers_tied_twice;
    const bool tied = row(*table).output_head && !shared;
    const std::uint32_t head_table = *table;
    std::string final_norm;
    for (const std::uint32_t i : root.parameters) {
      if (row(i).role == ParameterRole::norm) final_norm = module_of(row(i).name);
    }
    (tied ? tail : input).parameters.push_back(*table);
    (tied ? tail : input).uses.push_back(uses_at(0).front());
    if (tied) tail.first = 0;
    root.parameters.erase(table);
    const auto is_tail = [&](std::uint32_t i) {
      return row(i).role == ParameterRole::matmul || module_of(row(i).name) == final_norm;
    };
    std::copy_if(root.parameters.begin(), root.parameters.end(),
                 std::back_inserter(tail.parameters), is_tail);
    std::erase_if(root.parameters, is_tail);
    if (shared) tail.parameters.push_back(head_table);
    input.adds_to_others = shared;
    for (const std::uint32_t use : uses_at(head_)) tail.uses.push_back(use);
  }

  void give_root_the_rest(ShardedUnit& root) const {
    std::vector<bool> taken(order_.parameters().size());
    for (const ShardedUnit& unit : units_) {
      for (const std::uint32_t use : unit.uses) taken[use] = true;
    }
    for (std::uint32_t i = 0; i < taken.size(); ++i) {
      if (!taken[i]) root.uses.push_back(i);
    }
  }

  const Inventory& inventory_;
  const ForwardOrder& order_;
  const Timeline& timeline_;
  UnitLayout layout_;
  Reshard reshard_;
  std::uint32_t last_;  // the loss
  std::uint32_t head_;
  std::vector<ShardedUnit> units_;
};

}  // namespace

std::vector<ShardedUnit> sharded_units(const Job& job, const Inventory& inventory,
                                       const ForwardOrder& order, const Timeline& timeline) {
  return UnitWriter(job, inventory, order, timeline).write();
}

}  // namespace memest
