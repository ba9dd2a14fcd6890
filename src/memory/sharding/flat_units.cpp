#include "memory/sharding/flat_units.hpp"

#include <algorithm>
#include <utility>

#include "memest/spec/dtype.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/sharding/coalesced_broadcast.hpp"
#include "memory/sharding/flat_unit_layout.hpp"
#include "memory/sharding/fsdp_habits.hpp"
#include "memory/sharding/parameter_places.hpp"

namespace memest {
namespace {

/// Every parameter begins at a multiple of 16 bytes in the gathered type (_get_aligned_numel).
constexpr std::int64_t kAlignedBytes = 16;

std::int64_t rounded_up_to(std::int64_t value, std::int64_t multiple) {
  return checked_multiply(checked_add(value, multiple - 1) / multiple, multiple);
}

}  // namespace

FlatUnits::FlatUnits(const Model& model, Recorder& recorder)
    : job_(model.job),
      inventory_(model.graph.parameters),
      recorder_(recorder),
      ranks_(model.job.parallelism.shard_ranks()),
      rank_(model.data_rank),
      recipe_(model.job.training->recipe),
      apart_(std::get<FlatShards>(sharding_of(model.job)).trained_apart),
      units_(flat_units(model.job, model.graph, model.order, recorder.timeline())),
      states_(units_.size()),
      arrived_(model.order.parameters().size()),
      reshard_(memest::units_of(sharding_of(model.job))->reshard) {
  const std::vector<std::uint32_t> places =
      parameter_places(model.graph, model.order, recorder.timeline());
  for (std::size_t i = 0; i < units_.size(); ++i) {
    std::stable_sort(
        units_[i].uses.begin(), units_[i].uses.end(),
        [&](std::uint32_t left, std::uint32_t right) { return places[left] < places[right]; });
    lay_out(i);
  }
  for (const Piece& piece : pieces(rank_)) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const std::vector<std::uint32_t>& own = units_[i].parameters;
      if (std::ranges::find(own, piece.parameter) != own.end()) states_[i].steps = true;
    }
  }
}

void FlatUnits::lay_out(std::size_t unit) {
  State& state = states_[unit];
  const std::int64_t alignment = apart_ ? 1 : kAlignedBytes / size_of(gathered_of(unit));
  std::int64_t end = 0;
  for (const std::uint32_t parameter : units_[unit].parameters) {
    state.begins.push_back(rounded_up_to(end, alignment));
    end = checked_add(state.begins.back(), recorder_.timeline().parameters[parameter].elements);
  }
  state.begins.push_back(end);
  // _init_flat_param_and_metadata pads the whole so that the ranks' shares are equal: 10 elements
  // over 4 ranks are shares of 3.
  state.shard = checked_add(end, ranks_ - 1) / ranks_;
  state.trained = std::ranges::any_of(units_[unit].parameters, [this](std::uint32_t parameter) {
    return row(parameter).trainable;
  });
}

DType FlatUnits::share_of(std::size_t unit) const {
  return states_[unit].trained ? recipe_.trained.value_or(recipe_.weights) : recipe_.weights;
}

DType FlatUnits::gathered_of(std::size_t unit) const {
  return recipe_.casts_gathered() || !apart_ ? recipe_.compute : share_of(unit);
}

DType FlatUnits::reduced_of(std::size_t unit) const {
  return recipe_.casts_gathered() ? recipe_.reduce : gathered_of(unit);
}

std::int64_t FlatUnits::padded(std::size_t unit) const {
  return checked_multiply(states_[unit].shard, ranks_);
}

/// use_orig_params alone pads the flat tensor itself, and not its shards (flatten_tensors,
/// _get_shard).
std::int64_t FlatUnits::flattened(std::size_t unit) const {
  return apart_ ? states_[unit].begins.back() : padded(unit);
}

HeldStorage FlatUnits::make(std::size_t unit, UnitTensor tensor, Elements elements, Stream stream) {
  Label label;
  label.holding = holding_of(tensor);
  label.origin = Origin::unit;
  label.place = units_[unit].first;
  label.op = units_[unit].first == units_[unit].last ? 0 : 1;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return recorder_.make(checked_multiply(elements.count, size_of(elements.type)), label, stream);
}

// torch/distributed/fsdp/_init_utils.py, _init_param_handle_from_module.
void FlatUnits::construct(ModelPlacement& placement) {
  const bool on_device = shard_init(job_) == ShardInit::device;
  const bool sends_first = std::get<FlatShards>(sharding_of(job_)).sync_module_states;
  const std::vector<StorageId> placed =
      on_device ? placed_weights(recorder_.timeline()) : std::vector<StorageId>{};
  for (std::size_t i = 0; i < units_.size(); ++i) {
    HeldVector weights;
    for (const std::uint32_t parameter : units_[i].parameters) {
      if (on_device) weights.push_back(recorder_.adopt(placed[parameter]));
    }
    if (!on_device) weights = bring(i, placement);
    if (states_[i].shard == 0) continue;
    if (sends_first) sync(i);
    const HeldStorage whole = make(i, UnitTensor::flat_weights, {flattened(i), share_of(i)});
    make(i, UnitTensor::shard, {states_[i].shard, share_of(i)}).give_up();
  }
}

const ParameterTensor& FlatUnits::row(std::uint32_t parameter) const {
  return inventory_.parameters[recorder_.timeline().parameters[parameter].row];
}

/// _move_module_to_device and _materialize_meta_module walk the modules breadth first. A head is
/// beside the model that has all the rest.
HeldVector FlatUnits::bring(std::size_t unit, ModelPlacement& placement) const {
  std::vector<std::uint32_t> parameters = units_[unit].parameters;
  const auto depth = [&](std::uint32_t parameter) -> std::ptrdiff_t {
    const ParameterTensor& tensor = row(parameter);
    if (units_[unit].is_root && tensor.role == ParameterRole::matmul) return 0;
    return std::count(tensor.name.begin(), tensor.name.end(), '.');
  };
  std::stable_sort(
      parameters.begin(), parameters.end(),
      [&](std::uint32_t left, std::uint32_t right) { return depth(left) < depth(right); });
  HeldVector weights;
  for (const std::uint32_t parameter : parameters) {
    weights.push_back(recorder_.adopt(placement.place(parameter)));
  }
  if (units_[unit].is_root) placement.place_buffers();
  return weights;
}

/// _sync_module_params_and_buffers.
void FlatUnits::sync(std::size_t unit) const {
  CoalescedBroadcast sent;
  const Timeline& timeline = recorder_.timeline();
  for (const TensorPlace& buffer : timeline.buffers) {
    if (!units_[unit].is_root) break;
    const DType type = inventory_.buffers[buffer.row].dtype;
    sent.add(type, checked_multiply(buffer.elements, size_of(type)));
  }
  for (const std::uint32_t parameter : units_[unit].parameters) {
    const DType type = share_of(unit);
    sent.add(type, checked_multiply(timeline.parameters[parameter].elements, size_of(type)));
  }
  sent.write(recorder_);
}

/// In the order of Module.parameters().
std::vector<FlatUnits::Piece> FlatUnits::pieces(std::int64_t data_rank) const {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const State& state = states_[i];
    const std::int64_t begin = checked_multiply(data_rank, state.shard);
    const std::int64_t end = checked_add(begin, state.shard);
    for (std::size_t k = 0; k < units_[i].parameters.size() && state.begins[k] < end; ++k) {
      const std::uint32_t parameter = units_[i].parameters[k];
      const std::int64_t whole = recorder_.timeline().parameters[parameter].elements;
      const std::int64_t elements =
          std::min(state.begins[k] + whole, end) - std::max(state.begins[k], begin);
      if (!row(parameter).trainable || (elements <= 0 && !apart_)) continue;
      pieces.push_back({parameter, apart_ ? state.shard : elements});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& left, const Piece& right) {
    return left.parameter < right.parameter;
  });
  return pieces;
}

std::vector<std::int64_t> FlatUnits::stepped_elements(std::int64_t data_rank) const {
  std::vector<std::int64_t> elements;
  for (const Piece& piece : pieces(data_rank)) elements.push_back(piece.elements);
  return elements;
}

ParameterGroup FlatUnits::stepped() {
  ParameterGroup group;
  const std::vector<Piece> own = pieces(rank_);
  rows_.reserve(own.size());
  for (const Piece& piece : own) {
    ParameterTensor row;
    row.name = "piece";
    row.shape = {piece.elements};
    rows_.push_back(std::move(row));
    group.push_back({piece.parameter, piece.elements, &rows_.back()});
  }
  return group;
}

/// The root first, and a layer before what is in it: FSDP.modules() as they are nested.
std::vector<std::size_t> FlatUnits::as_nested() const {
  std::vector<std::size_t> order{root()};
  for (std::size_t i = 0; i < root(); ++i) {
    const bool inside = units_[i].op != ShardedUnit::kBlocks;
    std::size_t around = i;
    while (inside && units_[around].op != ShardedUnit::kBlocks) ++around;
    const bool first = i == 0 || units_[i - 1].first != units_[i].first;
    if (inside && first) order.push_back(around);
    if (inside || first) order.push_back(i);
  }
  return order;
}

/// _lazy_init.
void FlatUnits::begin_run() {
  has_run_ = true;
  for (const std::size_t i : as_nested()) {
    if (states_[i].shard == 0) continue;
    if (casts(i)) {
      make(i, UnitTensor::cast_shares, {states_[i].shard, gathered_of(i)}).drop();
    }
    make(i, UnitTensor::flat_weights, {padded(i), gathered_of(i)}).drop();
    if (casts(i)) make(i, UnitTensor::flat_weights, {padded(i), share_of(i)}).drop();
  }
}

/// Gradients that are views are let go of in the next forward, those of flat parameters at once.
void FlatUnits::drop_gradients() {
  dropped_ = true;
  if (apart_) release_dropped();
}

void FlatUnits::release_dropped() {
  const bool all = std::exchange(dropped_, false);
  for (std::size_t n = 0; n < units_.size(); ++n) {
    State& state = states_[n == 0 ? root() : n - 1];
    if (all || !state.steps) state.gradients.drop();
  }
}

void FlatUnits::before_forward(std::uint32_t instance) {
  if (instance == 0) {
    if (!has_run_) begin_run();
    release_dropped();
  }
  for (std::size_t i = units_.size(); i > 0; --i) {  // the root before what is in it
    if (units_[i - 1].begins_with(instance)) gather(i - 1);
  }
}

void FlatUnits::after_forward(std::uint32_t instance) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].ends_with(instance) && units_[i].reshards) give_back(i);
  }
}

void FlatUnits::before_backward(std::uint32_t instance) {
  for (std::size_t i = units_.size(); i > 0; --i) {
    if (!units_[i - 1].ends_with(instance)) continue;
    if (units_[i - 1].answers == ShardedUnit::kBlocks) {
      gather_before(i - 1);
    } else {
      waits_ = true;  // _register_pre_backward_hooks: on what the model answers
    }
  }
  if (ended_) give_back(*std::exchange(ended_, std::nullopt));
}

/// BackwardPrefetch.BACKWARD_PRE, the default: the next unit is gathered before this one's
/// gradients are made.
void FlatUnits::gather_before(std::size_t unit) {
  gather(unit);
  if (unit > 0) gather(unit - 1);
}

void FlatUnits::after_backward(std::uint32_t instance) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!units_[i].begins_with(instance) || units_[i].reduces_at_end) continue;
    if (states_[i].trained) {
      reduce(i);
    } else {
      ended_ = i;
    }
  }
}

/// A unit of one module; nothing where the op is none's.
std::optional<std::size_t> FlatUnits::module_at(std::uint32_t instance, std::uint32_t op) const {
  if (!apart_) return std::nullopt;
  const auto begin = units_.begin();
  const auto end = units_.end() - 1;  // the root is no op's
  auto at = std::lower_bound(
      begin, end, instance,
      [](const ShardedUnit& unit, std::uint32_t first) { return unit.first < first; });
  for (; at != end && at->first == instance; ++at) {
    if (at->op == op) return static_cast<std::size_t>(at - begin);
  }
  return std::nullopt;
}

/// _pre_forward and _post_forward do nothing where the module's own backward has begun.
void FlatUnits::before_op(const OpSite& site) {
  const auto unit = module_at(site.instance, site.op);
  if (unit && !states_[*unit].in_backward) gather(*unit);
}

void FlatUnits::after_op(const OpSite& site) {
  const auto unit = module_at(site.instance, site.op);
  if (unit && !states_[*unit].in_backward && units_[*unit].reshards) give_back(*unit);
}

void FlatUnits::before_node(const OpSite& site) {
  if (waits_ && site.op <= units_[root()].answers) {
    waits_ = false;
    gather_before(root());
  }
  const auto unit = module_at(site.instance, site.op);
  if (!unit) return;
  states_[*unit].in_backward = true;
  gather_before(*unit);
}

void FlatUnits::after_node(const OpSite& site) {
  const auto unit = module_at(site.instance, site.op);
  if (!unit) return;
  reduce(*unit);
  states_[*unit].in_backward = false;
}

bool FlatUnits::take_gradient(std::uint32_t use, StorageId gradient) {
  arrived_[use] = recorder_.adopt(gradient);
  return true;
}

void FlatUnits::end_backward() {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].reduces_at_end) reduce(i);
  }
  if (ended_) give_back(*std::exchange(ended_, std::nullopt));
}

void FlatUnits::gather(std::size_t unit) {
  State& state = states_[unit];
  if (state.gathered.is_of_storage() || state.shard == 0) return;
  const HeldStorage cast = casts(unit) ? make(unit, UnitTensor::cast_shares,
                                              {state.shard, gathered_of(unit)}, Stream::cast_shards)
                                       : HeldStorage();
  state.gathered =
      make(unit, UnitTensor::flat_weights, {padded(unit), gathered_of(unit)}, Stream::all_gather);
}

void FlatUnits::give_back(std::size_t unit) { states_[unit].gathered.drop(); }

void FlatUnits::reduce(std::size_t unit) {
  if (states_[unit].shard == 0) return;
  if (!states_[unit].trained) return give_back(unit);
  const DType made = gathered_of(unit);
  const DType reduced = reduced_of(unit);
  const std::int64_t elements = flattened(unit);
  HeldStorage flat = make(unit, UnitTensor::flat_gradient, {elements, made}, Stream::all_gather);
  for (const std::uint32_t use : units_[unit].uses) {
    arrived_[use].drop();
  }
  // AccumulateGrad adds to what an earlier micro-step has left in the flat parameter's own.
  HeldStorage& whole = states_[unit].whole;
  if (whole.is_of_storage()) flat = std::move(whole);
  // _should_free_in_backward.
  if (!holds_ || reshard_ != Reshard::never) give_back(unit);
  if (holds_) {
    whole = std::move(flat);
    return;
  }
  const auto sent = [&](std::int64_t count) {
    return make(unit, UnitTensor::reduce_scatter_input, {count, reduced}, Stream::reduce_scatter);
  };
  const HeldStorage wide = reduced == made ? HeldStorage() : sent(elements);
  // _get_reduce_scatter_tensors: F.pad.
  const HeldStorage filled = elements == padded(unit) ? HeldStorage() : sent(padded(unit));
  take_shard(unit, make(unit, UnitTensor::gradients, {states_[unit].shard, reduced},
                        Stream::reduce_scatter));
}

/// The first becomes the gradient, later ones are added to it; in the shard's own type.
void FlatUnits::take_shard(std::size_t unit, HeldStorage reduced) {
  if (reduced_of(unit) != share_of(unit)) {
    reduced = make(unit, UnitTensor::gradients, {states_[unit].shard, share_of(unit)},
                   Stream::reduce_scatter);
  }
  HeldStorage& gradients = states_[unit].gradients;
  if (!gradients.is_of_storage()) gradients = std::move(reduced);
}

}  // namespace memest
