#include "memory/sharding/unit_layout.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "memest/graph/final_norm.hpp"
#include "memest/spec/parallel/expert_ranks.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"

namespace memest {

/// torchtitan 0.2.2 (apply_fsdp), 0.1.0 without units of the ends; accelerate 1.15
/// (fsdp2_prepare_model); fully_shard on every block and on the model.
FsdpUnits layout_of(const Implementation& implementation) {
  FsdpUnits units = row_of(implementation.framework).units;
  units.ends_apart = units.ends_apart && row_of(implementation.torchtitan).ends_apart;
  units.ends_apart = units.ends_apart || row_of(implementation.loop).accelerate;
  return units;
}

namespace {

std::string module_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

/// Instances of a part of the model.
struct PartSpan {
  std::size_t part = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

class UnitWriter {
 public:
  UnitWriter(const Job& job, const Inventory& inventory, const ForwardOrder& order,
             const Timeline& timeline)
      : inventory_(inventory),
        order_(order),
        timeline_(timeline),
        layout_(layout_of(job.training->implementation)),
        reshard_(units_of(sharding_of(job))->reshard),
        ranks_(job.parallelism.shard_ranks()),
        expert_ranks_(job.parallelism.expert_shard_ranks()),
        experts_apart_(has_experts_apart(job)),
        cuts_columns_(experts_apart_ && job.parallelism.cuts_columns(job.model.experts()->experts)),
        adapted_(job.model.adapter && !asks_embeddings_for_gradient(*job.training) &&
                 !shards_by<FlatShards>(job)),
        reads_head_(row_of(job.training->implementation.loop).takes_tiles),
        prefers_(row_of(job.training->implementation.loop).prefers),
        peft_in_accelerate_(job.model.adapter &&
                            row_of(job.training->implementation.loop).accelerate),
        codes_stay_(job.model.quantized && !job.model.quantized->in_shards()) {}

  std::vector<ShardedUnit> write() && {
    const auto& stages = order_.stages();
    for (std::size_t part = 0; part < stages.size(); ++part) {
      const OpSite& begin = order_.sites()[stages[part].begin];
      const OpSite& end = order_.sites()[stages[part].end - 1];
      // A loss of preferences is taken behind what the model answers.
      write({part, begin.instance, prefers_ ? end.instance - 1 : end.instance});
    }
    return std::move(units_);
  }

 private:
  void write(const PartSpan& span) {
    span_ = span;
    const std::size_t first_unit = units_.size();
    const bool has_head = is_end(span.last);
    head_ = has_head && span.last > span.first ? span.last - 1 : span.last;
    ShardedUnit input = unit_at(span.first);
    ShardedUnit tail = unit_at(head_);
    // accelerate keeps the tail, torchtitan does unless told otherwise.
    tail.reshards = reshard_ == Reshard::always && !layout_.loss_in_model;
    ShardedUnit root = unit_at(span.first);
    root.is_root = true;
    root.last = layout_.loss_in_model ? span.last : head_;
    // torchtitan and accelerate leave the root to FSDPState._lazy_init: it keeps its weights, which
    // the backward would gather again at once.
    root.reshards = layout_.root_reshards && reshard_ == Reshard::always;
    root.answers = answer_at(root.last);
    root.parameters = parameters_of_ends(span);
    if (layout_.ends_apart) take_ends(root, input, tail);
    add(std::move(input));
    for (std::uint32_t i = span.first; i <= span.last; ++i) {
      if (is_end(i)) continue;
      ShardedUnit layer = unit_at(i);
      layer.parameters = parameters_of_layer(timeline_.places[i].layer);
      layer.uses = uses_at(i);
      add(split_experts(layer));
      add(std::move(layer));
    }
    // Where the ends have no units the last layer is the one whose backward comes at once.
    const bool last_stays =
        reshard_ == Reshard::all_but_last && !layout_.ends_apart && !layout_.loss_in_model;
    if (last_stays && has_head && units_.size() > first_unit) units_.back().reshards = false;
    add(std::move(tail));
    give_root_the_rest(root);
    units_.push_back(std::move(root));
    for (std::size_t i = first_unit; i < units_.size(); ++i) {
      ShardedUnit& unit = units_[i];
      const bool at_input = unit.first == span.first && (unit.is_root || is_end(span.first));
      // RegisterPostBackwardFunction hangs on an input that wants a gradient; units without one
      // wait for _root_post_backward_final_callback.
      unit.reduces_at_end = at_input || !gradient_comes_to(unit, span);
      const bool looks_up = !unit.is_root && is_end(span.first) && unit.last == span.first;
      unit.has_backward = !looks_up || !adapted_ || embeddings_want_gradient(span);
      if (unit.more_ops == 0) order_uses(unit);
    }
    if (experts_apart_) gather_neighbours_ahead(first_unit);
  }

  /// torchtitan 0.2.2, apply_fsdp: fully_shard(transformer_block.moe.experts) over "efsdp"; takes
  /// what is the experts' out of `layer`. Without expert-parallel ranks they own nothing.
  [[nodiscard]] ShardedUnit split_experts(ShardedUnit& layer) const {
    ShardedUnit experts = layer;
    if (!experts_apart_) return {};
    const Slice ops = order_.programs()[order_.instances()[layer.first].block].experts;
    experts.op = ops.begin;
    experts.more_ops = ops.end - ops.begin - 1;
    experts.ranks = expert_ranks_;
    experts.by_columns = cuts_columns_;
    const auto is_expert = [this](std::uint32_t i) { return row(i).expert_parallel; };
    const auto of_experts = [this](std::uint32_t use) {
      return order_.parameters()[use].of_experts;
    };
    std::erase_if(layer.parameters, is_expert);
    std::erase_if(layer.uses, of_experts);
    std::erase_if(experts.parameters, std::not_fn(is_expert));
    std::erase_if(experts.uses, std::not_fn(of_experts));
    // GroupedExperts registers w1, w2 and w3, and multiplies by w2 last.
    if (experts.uses.size() > 1) std::swap(experts.uses.back(), *(experts.uses.end() - 2));
    return experts;
  }

  /// apply_fsdp: each of the ends and layers gathers the next one ahead, in the backward the one
  /// before; a layer its neighbour's experts, too.
  void gather_neighbours_ahead(std::size_t first_unit) {
    std::optional<std::size_t> before;
    for (std::size_t i = first_unit; i + 1 < units_.size(); ++i) {
      if (units_[i].more_ops > 0) continue;
      if (before) {
        units_[*before].ahead = with_experts(i, *before);
        units_[i].ahead_in_backward = with_experts(*before, i);
      }
      before = i;
    }
  }

  /// Experts' units stand before their layers'.
  [[nodiscard]] std::vector<std::size_t> with_experts(std::size_t unit,
                                                      std::size_t neighbour) const {
    const bool has_experts = unit > 0 && units_[unit - 1].more_ops > 0;
    if (!has_experts || is_end(units_[neighbour].first)) return {unit};
    return {unit, unit - 1};
  }

  /// FSDPParamGroup._register_post_backward_hook: nothing tells when the backward of the first
  /// layer has run where its input wants no gradient. Under peft checkpoints ask for one.
  [[nodiscard]] bool gradient_comes_to(const ShardedUnit& unit, const PartSpan& span) const {
    const bool reads_input = unit.first == span.first + 1 && !unit.is_root;
    return !adapted_ || !reads_input || !is_end(span.first) || embeddings_want_gradient(span);
  }

  [[nodiscard]] bool embeddings_want_gradient(const PartSpan& span) const {
    const std::vector<std::uint32_t> uses = uses_at(span.first);
    return std::any_of(uses.begin(), uses.end(), [this](std::uint32_t use) {
      return order_.parameters()[use].contributions > 0;
    });
  }

  /// Outside the layers.
  [[nodiscard]] bool is_end(std::uint32_t instance) const {
    return timeline_.places[instance].layer == 0;
  }

  /// The model's first table is in the part that looks token ids up, the rest in that of the head.
  [[nodiscard]] std::vector<std::uint32_t> parameters_of_ends(const PartSpan& span) const {
    const bool looks_up = is_end(span.first);
    const bool has_head = is_end(span.last);
    std::vector<std::uint32_t> list = parameters_of_layer(0);
    std::erase_if(list, [&](std::uint32_t i) {
      return row(i).role == ParameterRole::embedding ? !looks_up : !has_head;
    });
    return list;
  }

  [[nodiscard]] ShardedUnit unit_at(std::uint32_t instance) const {
    ShardedUnit unit;
    unit.first = unit.last = instance;
    unit.part = span_.part;
    unit.reshards = reshard_ != Reshard::never;
    unit.ranks = ranks_;
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
      const bool ignored = codes_stay_ && row(i).quantized;
      if (timeline_.parameters[i].layer == layer && !ignored) list.push_back(i);
    }
    if (layout_.adapters_first) put_adapters_first(list);
    return list;
  }

  /// _get_managed_modules() lists a module behind its submodules: LoRA's pair of matrices before
  /// the weight and bias of a layer whose submodules they are.
  void put_adapters_first(std::vector<std::uint32_t>& list) const {
    const auto is_adapted = [this](std::uint32_t i) {
      return row(i).name.find(".base_layer.") != std::string::npos;
    };
    for (auto first = list.begin(); first != list.end();) {
      const auto pair = std::find_if_not(first, list.end(), is_adapted);
      if (pair == first) {
        ++first;
        continue;
      }
      std::rotate(first, pair, pair + 2);
      first = pair + 2;
    }
  }

  [[nodiscard]] std::vector<std::uint32_t> uses_at(std::uint32_t instance) const {
    std::vector<std::uint32_t> list;
    for (std::uint32_t i = 0; i < order_.parameters().size(); ++i) {
      if (order_.parameters()[i].instance == instance) list.push_back(i);
    }
    return list;
  }

  /// The table that token ids are looked up in is the first that is registered, and the first that
  /// the model reads. In the unit of the tail it stands behind the norm (accelerate 1.15,
  /// fsdp2_prepare_model: tail_modules).
  void take_ends(ShardedUnit& root, ShardedUnit& input, ShardedUnit& tail) const {
    const auto is_table = [this](std::uint32_t i) {
      return row(i).role == ParameterRole::embedding;
    };
    const auto table = std::find_if(root.parameters.begin(), root.parameters.end(), is_table);
    std::optional<std::uint32_t> shared;
    if (table != root.parameters.end()) {
      const bool is_head = row(*table).output_head;
      if (is_head && layout_.gathers_tied_twice) shared = *table;
      const bool tied = is_head && !shared;
      if (tied) shared = *table;
      if (!tied) input.parameters.push_back(*table);
      // torchtitan's module goes on over the tensor-parallel ranks.
      input.ends_behind_look_up = layout_.loss_in_model;
      (tied ? tail : input).uses.push_back(uses_at(span_.first).front());
      // accelerate puts the embedding first in the tail's unit: its hook gathers the table for the
      // look-up.
      if (tied) tail.first = span_.first;
      root.parameters.erase(table);
    }
    take_tail(root, tail);
    // The head by itself is gathered when its product begins, behind the norm.
    const bool head_alone = tail.first == head_ && final_norm_missing(root);
    if (head_alone && !shared) tail.op = reads_head_ ? ShardedUnit::kNever : product_at(head_);
    if (shared) tail.parameters.push_back(*shared);
    input.adds_to_others = shared.has_value() && !input.parameters.empty();
  }

  [[nodiscard]] bool finds_norm(const std::string& name) const {
    return !peft_in_accelerate_ || finds_norm_beside_peft(module_of(name));
  }

  /// Whether a norm is left to the root.
  [[nodiscard]] bool final_norm_missing(const ShardedUnit& root) const {
    return std::ranges::any_of(
        root.parameters, [this](std::uint32_t i) { return row(i).role == ParameterRole::norm; });
  }

  [[nodiscard]] std::uint32_t answer_at(std::uint32_t instance) const {
    const auto& ops = order_.programs()[order_.instances()[instance].block].ops;
    const auto answer = std::ranges::find_if(ops, [](const auto& op) { return op.ends_autocast; });
    return answer == ops.end() ? ShardedUnit::kBlocks
                               : static_cast<std::uint32_t>(answer - ops.begin());
  }

  /// The op of the head's product, its block's last.
  [[nodiscard]] std::uint32_t product_at(std::uint32_t instance) const {
    const std::size_t ops = order_.programs()[order_.instances()[instance].block].ops.size();
    return static_cast<std::uint32_t>(ops - 1);
  }

  void take_tail(ShardedUnit& root, ShardedUnit& tail) const {
    std::string final_norm;
    for (const std::uint32_t i : root.parameters) {
      const bool is_found = row(i).role == ParameterRole::norm && finds_norm(row(i).name);
      if (is_found) final_norm = module_of(row(i).name);
    }
    const auto is_tail = [&](std::uint32_t i) {
      return row(i).role == ParameterRole::matmul || module_of(row(i).name) == final_norm;
    };
    std::copy_if(root.parameters.begin(), root.parameters.end(),
                 std::back_inserter(tail.parameters), is_tail);
    std::erase_if(root.parameters, is_tail);
    if (!is_end(head_)) return;
    for (const std::uint32_t use : uses_at(head_)) tail.uses.push_back(use);
    if (!reads_head_) return;
    tail.never_ends = true;
    for (const std::uint32_t use : uses_at(span_.last)) tail.uses.push_back(use);
  }

  /// As the parameters are registered; those of one shape as they are read.
  void order_uses(ShardedUnit& unit) const {
    std::vector<std::uint32_t> ordered;
    for (const std::uint32_t parameter : unit.parameters) {
      const std::int64_t share = timeline_.parameters[parameter].elements;
      const std::int64_t row_elements = share / row(parameter).shape.front();
      const auto is_share = [&](std::uint32_t use) {
        const ParameterUse& read = order_.parameters()[use];
        const std::int64_t rows = (read.rows + ranks_ - 1) / ranks_;
        return rows * row_elements == share && read.rows * row_elements == read.elements;
      };
      const auto found = std::find_if(unit.uses.begin(), unit.uses.end(), is_share);
      if (found == unit.uses.end()) continue;
      ordered.push_back(*found);
      unit.uses.erase(found);
    }
    ordered.insert(ordered.end(), unit.uses.begin(), unit.uses.end());
    unit.uses = std::move(ordered);
  }

  void give_root_the_rest(ShardedUnit& root) const {
    std::vector<bool> taken(order_.parameters().size());
    for (const ShardedUnit& unit : units_) {
      for (const std::uint32_t use : unit.uses) taken[use] = true;
    }
    for (std::uint32_t i = 0; i < taken.size(); ++i) {
      const std::uint32_t instance = order_.parameters()[i].instance;
      const bool own = instance >= span_.first && instance <= span_.last;
      if (own && !taken[i]) root.uses.push_back(i);
    }
  }

  const Inventory& inventory_;
  const ForwardOrder& order_;
  const Timeline& timeline_;
  FsdpUnits layout_;
  Reshard reshard_;
  std::int64_t ranks_;
  std::int64_t expert_ranks_;  // of an expert's weights
  bool experts_apart_;
  bool cuts_columns_;
  // No input of a layer is made a leaf, and FSDP2's hooks ask for one that wants a gradient:
  // FSDP1's is the flat tensor's own (_register_post_backward_hook).
  bool adapted_;
  bool reads_head_;  // without calling its module
  bool prefers_;
  bool peft_in_accelerate_;
  bool codes_stay_;  // with their modules, on every rank
  PartSpan span_;
  std::uint32_t head_ = 0;
  std::vector<ShardedUnit> units_;
};

}  // namespace

std::vector<ShardedUnit> sharded_units(const Job& job, const Inventory& inventory,
                                       const ForwardOrder& order, const Timeline& timeline) {
  return UnitWriter(job, inventory, order, timeline).write();
}

}  // namespace memest
