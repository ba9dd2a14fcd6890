#include "memory/sharding/sharded_units.hpp"

#include <algorithm>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/graph/float8_weights.hpp"
#include "memest/units/int128.hpp"
#include "memory/optimizer/foreach_copies.hpp"
#include "memory/sharding/fsdp_habits.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

ShardedUnits::ShardedUnits(const Model& model, Recorder& recorder)
    : timeline_(recorder.timeline()),
      order_(model.order),
      inventory_(model.inventory),
      recipe_(model.job.training->recipe),
      recorder_(recorder),
      multiprocessors_(model.job.hardware.gpu.multiprocessors
                           ? model.job.hardware.gpu.multiprocessors->value
                           : 0),
      offloads_(model.job.parallelism.offload.parameters),
      types_{recipe_.trained.value_or(recipe_.weights), recipe_.compute,
             recipe_.reduced_gradients()},
      quantized_(model.job.model.quantized ? &*model.job.model.quantized : nullptr),
      in_fp8_(gathered_in_fp8(model.graph, model.job.model, model.job.training->implementation)),
      float8_(types_.share, model.device),
      units_(sharded_units(model.job, model.inventory, model.order, timeline_)),
      states_(units_.size()),
      parts_(model.order.stages().size()),
      in_modules_(std::ranges::any_of(
          units_, [](const ShardedUnit& unit) { return unit.op != ShardedUnit::kBlocks; })),
      in_stages_(model.job.parallelism.pipeline > 1),
      sums_(in_stages_ || reduces_last(model.job)),
      holds_(in_stages_),
      arrived_(model.order.parameters().size()),
      sums_of_(model.order.parameters().size()),
      casts_loss_(casts_loss(model.job)) {
  place_scales(model.graph);
}

const ParameterTensor& ShardedUnits::row(std::uint32_t parameter) const {
  return inventory_.parameters[timeline_.parameters[parameter].row];
}

std::vector<std::uint32_t> ShardedUnits::trained(std::size_t unit) const {
  std::vector<std::uint32_t> parameters = units_[unit].parameters;
  std::erase_if(parameters, [this](std::uint32_t i) { return !row(i).trainable; });
  return parameters;
}

std::int64_t ShardedUnits::trained_elements(std::size_t unit) const {
  std::int64_t elements = 0;
  for (const std::uint32_t parameter : trained(unit)) {
    elements = checked_add(elements, timeline_.parameters[parameter].elements);
  }
  return elements;
}

HeldStorage ShardedUnits::make(std::size_t unit, UnitTensor tensor, std::int64_t bytes,
                               Stream stream) {
  Label label;
  label.holding = holding_of(tensor);
  label.origin = Origin::unit;
  label.place = units_[unit].first;
  const UnitOf of = units_[unit].more_ops > 0                 ? UnitOf::experts
                    : units_[unit].first == units_[unit].last ? UnitOf::block
                                                              : UnitOf::root;
  label.op = static_cast<std::uint16_t>(of);
  label.tensor = static_cast<std::uint16_t>(tensor);
  return recorder_.make(bytes, label, {stream, units_[unit].part});
}

void ShardedUnits::before_forward(std::uint32_t instance) {
  if (instance == 0) spare_.drop();
  for (std::size_t i = units_.size(); i > 0; --i) {  // the root before what is in it
    if (units_[i - 1].begins_with(instance)) begin_unit(i - 1);
  }
}

void ShardedUnits::begin_unit(std::size_t unit) {
  Part& part = part_of(unit);
  if (in_stages_ && units_[unit].is_root) part.forward_order.clear();
  gather(unit);
  // FSDPParamGroup.wait_for_unshard: in a forward an output stays until the next unit has copied
  // out of its own, and so the copy overlaps that all-gather.
  HeldStorage output = take_apart(unit);
  if (output.is_of_storage() || units_[unit].ranks == 1) part.kept_output = std::move(output);
  for (const std::size_t next : units_[unit].ahead) gather(next);
}

/// A unit of a module inside a block whose first op, or its last, stands at the site; nothing where
/// there is none.
std::optional<std::size_t> ShardedUnits::module_at(const OpSite& site, OpOfModule which) const {
  if (!in_modules_) return std::nullopt;
  for (std::size_t i = units_.size(); i > 0; --i) {
    const ShardedUnit& unit = units_[i - 1];
    const std::uint32_t op = which == OpOfModule::first ? unit.op : unit.op + unit.more_ops;
    if (unit.first == site.instance && op == site.op) return i - 1;
  }
  return std::nullopt;
}

void ShardedUnits::before_op(const OpSite& site) {
  if (const auto unit = module_at(site, OpOfModule::first)) begin_unit(*unit);
}

/// FSDPParamGroup.post_forward keeps what a checkpoint's second forward has gathered (is_bw()), and
/// the module is the root of that: _post_forward lets go of the output.
void ShardedUnits::after_op(const OpSite& site) {
  const auto unit = module_at(site, OpOfModule::last);
  if (!unit) return;
  if (in_backward_) {
    part_of(*unit).kept_output.drop();
  } else {
    end_forward(*unit);
  }
}

/// The root's post_forward, where the program goes on in the model's last block.
void ShardedUnits::after_answer() {
  for (Part& part : parts_) part.kept_output.drop();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].ends_at_answer()) end_forward(i);
  }
}

void ShardedUnits::after_forward(std::uint32_t instance) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const ShardedUnit& unit = units_[i];
    if (!unit.ends_with(instance) || unit.ends_behind_look_up || unit.never_ends) continue;
    if (unit.ends_at_answer()) continue;
    end_forward(i);
    if (!units_[i].is_root) continue;
    // _post_forward has ended all_gather_state before, but its local of that name holds it until
    // the return.
    if (casts_loss_) cast_loss(i);
    part_of(i).kept_output.drop();
  }
}

void ShardedUnits::after_look_up(std::uint32_t instance) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].first == instance && units_[i].ends_behind_look_up) end_forward(i);
  }
}

void ShardedUnits::end_forward(std::size_t unit) {
  if (units_[unit].reshards) give_back(unit);
  if (!units_[unit].parameters.empty()) part_of(unit).forward_order.push_back(unit);
}

/// FSDPState._post_forward under accelerate's policy, whose output_dtype is the gathered one.
void ShardedUnits::cast_loss(std::size_t root) {
  Label label;
  label.place = units_[root].last;
  label.tensor = static_cast<std::uint16_t>(LoopTensor::loss);
  loss_ = recorder_.allocate(size_of(types_.gathered), label);
}

void ShardedUnits::before_backward(std::uint32_t instance) {
  for (std::size_t i = units_.size(); i > 0; --i) {
    const ShardedUnit& unit = units_[i - 1];
    if (!unit.ends_with(instance) || !unit.has_backward) continue;
    if (unit.answers != ShardedUnit::kBlocks) {
      waits_ = i - 1;
    } else {
      begin_backward(i - 1);
    }
  }
}

void ShardedUnits::begin_backward(std::size_t unit) {
  running_ = units_[unit].part;
  in_backward_ = true;
  gather(unit);
  take_apart(unit).drop();
  const std::vector<std::size_t>& ahead = units_[unit].ahead_in_backward;
  for (const std::size_t next : ahead) gather(next);
  if (!ahead.empty()) return;
  const std::vector<std::size_t>& order = part_of(unit).forward_order;
  const auto here = std::find(order.rbegin(), order.rend(), unit);
  // _backward_prefetch: the unit before it in post_forward_order, whether the backward needs it
  // or not. Other forwards since the last backward, as of a reference, stand in that order too.
  const bool first = here == order.rend() || here + 1 == order.rend();
  if (!first) gather(*(here + 1));
}

void ShardedUnits::before_node(const OpSite& site) {
  // _register_pre_backward_hook hangs on what the model answers before it is cast.
  const auto answered = [&](std::uint32_t answers) {
    return site.op < answers || (site.op == answers && !order_.op(site).casts_answer);
  };
  if (waits_ && answered(units_[*waits_].answers)) begin_backward(*std::exchange(waits_, {}));
  if (const auto unit = module_at(site, OpOfModule::last)) begin_backward(*unit);
}

void ShardedUnits::after_node(const OpSite& site) {
  if (const auto unit = module_at(site, OpOfModule::first)) end_unit(*unit);
}

void ShardedUnits::after_backward(std::uint32_t instance) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].begins_with(instance) && !units_[i].reduces_at_end) end_unit(i);
  }
}

/// Adds the gradient to one that the second part of another backward has left.
bool ShardedUnits::take_gradient(std::uint32_t use, StorageId gradient) {
  if (has_gradient(use)) {
    recorder_.release(gradient);
  } else {
    arrived_[use] = recorder_.adopt(gradient);
  }
  return true;
}

bool ShardedUnits::has_gradient(std::uint32_t use) const {
  return arrived_[use].is_of_storage() || (!widens_sums() && sums_of_[use].is_of_storage());
}

std::vector<std::size_t> ShardedUnits::units_of(std::size_t part) const {
  std::vector<std::size_t> units;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].part == part) units.push_back(i);
  }
  return units;
}

/// As the modules are nested: the root first, then as they are registered.
/// FSDPParamGroup.finalize_backward lets go of what was gathered ahead and then not asked for.
void ShardedUnits::end_backward() {
  std::vector<std::size_t> units = units_of(running_);
  in_backward_ = false;
  end_unit(units.back());
  std::ranges::stable_sort(units, {}, [this](std::size_t unit) { return units_[unit].first; });
  for (const std::size_t unit : units) {
    if (units_[unit].reduces_at_end && !units_[unit].is_root) end_unit(unit);
    states_[unit].output.drop();
  }
  parts_[running_].kept_input.drop();
  if (!in_stages_) parts_[running_].forward_order.clear();
}

/// FSDPParamGroup.post_backward.
void ShardedUnits::end_unit(std::size_t unit) {
  // post_backward without reduce_grads reshards, then widens (to_accumulated_grad_if_needed).
  if (!in_stages_ && holds_) give_back(unit);
  if (sums_) sum_gradients(unit);
  if (holds_) return;
  take_sums(unit);
  reduce(unit);
}

/// Takes the sums that earlier backwards have left as the gradients to reduce.
void ShardedUnits::take_sums(std::size_t unit) {
  for (const std::uint32_t use : units_[unit].uses) {
    if (sums_of_[use].is_of_storage()) arrived_[use] = std::move(sums_of_[use]);
  }
}

/// One by one: the first is widened, later ones are added in place.
void ShardedUnits::sum_gradients(std::size_t unit) {
  for (const std::uint32_t use : units_[unit].uses) {
    HeldStorage gradient = std::move(arrived_[use]);
    if (!gradient.is_of_storage()) continue;
    HeldStorage& sum = sums_of_[use];
    if (!sum.is_of_storage() && !widens_sums()) {
      sum = std::move(gradient);
    } else if (!sum.is_of_storage()) {
      // A gradient may be of the whole table: a partial sum over the tensor-parallel ranks.
      const std::int64_t bytes = timeline_.storages[gradient.id()].bytes;
      const std::int64_t elements = bytes / size_of(types_.gathered);
      sum =
          make(unit, UnitTensor::gradient_sum, checked_multiply(elements, size_of(types_.reduced)));
    }
  }
}

std::vector<std::uint32_t> ShardedUnits::uses_of(std::size_t stage) const {
  std::vector<std::uint32_t> uses;
  for (const std::size_t unit : units_of(stage)) {
    uses.insert(uses.end(), units_[unit].uses.begin(), units_[unit].uses.end());
  }
  return uses;
}

void ShardedUnits::reduce_stage(std::size_t stage) {
  for (const std::size_t unit : units_of(stage)) {
    take_sums(unit);
    reduce(unit);
  }
  parts_[stage].kept_input.drop();
}

void ShardedUnits::drop_gradients() {
  for (State& state : states_) state.gradients.drop();
}

/// Partial sums are added up over the tensor-parallel ranks, and whole tables cut.
void ShardedUnits::relay_gradients(std::size_t unit) {
  for (const std::uint32_t use : units_[unit].uses) {
    const ParameterUse& parameter = order_.parameters()[use];
    if (!parameter.relaid || !arrived_[use].is_of_storage()) continue;
    const std::int64_t bytes =
        checked_multiply(parameter.elements, size_of(sums_ ? types_.reduced : types_.gathered));
    arrived_[use] = make(unit, UnitTensor::relaid_gradient, bytes);
  }
}

/// The caller's last name for a gradient, the last parameter's, ends with the reduction.
void ShardedUnits::reduce(std::size_t unit) {
  relay_gradients(unit);
  give_back(unit);
  HeldVector gradients;
  for (const std::uint32_t use : units_[unit].uses) {
    if (arrived_[use].is_of_storage()) gradients.push_back(std::move(arrived_[use]));
  }
  if (gradients.empty()) return;
  std::swap(gradients.back(), gradients[last_gradient(unit, gradients)]);
  // Its name is that of foreach_reduce's loop, which runs among several ranks alone.
  HeldStorage last;
  if (units_[unit].ranks > 1) last = std::move(gradients.back());
  HeldStorage& kept_input = part_of(unit).kept_input;
  kept_input.drop();
  if (units_[unit].by_columns) cut_columns(unit, gradients, last);
  CopyPieces pieces;
  for (const std::uint32_t parameter : trained(unit)) {
    pieces.add(checked_multiply(timeline_.parameters[parameter].elements, size_of(types_.reduced)));
  }
  const std::int64_t share = checked_multiply(trained_elements(unit), size_of(types_.reduced));
  kept_input =
      make(unit, UnitTensor::reduce_scatter_input, checked_multiply(share, units_[unit].ranks));
  make(unit, UnitTensor::pointers, pieces.bytes_of_chunk_cat()).drop();
  gradients.drop();
  const HeldStorage added = take_shares(unit, share);
  last.drop();
}

/// foreach_reduce writes gradients rank by rank, each in place of the other: its enumerate(zip())
/// has the first until the third comes.
void ShardedUnits::cut_columns(std::size_t unit, HeldVector& gradients, const HeldStorage& last) {
  HeldVector by_rank;
  const auto cut = [&](const HeldStorage& gradient) {
    const std::int64_t bytes = timeline_.storages[gradient.id()].bytes;
    by_rank.push_back(make(unit, UnitTensor::relaid_gradient, bytes));
  };
  for (std::size_t i = 0; i + 1 < gradients.size(); ++i) cut(gradients[i]);
  gradients.drop();
  cut(last);
  gradients = std::move(by_rank);
}

/// The first time the reduced shares become the gradients; later ones are added to them. Answers
/// those that were added to another unit's, or sent to the host.
HeldStorage ShardedUnits::take_shares(std::size_t unit, std::int64_t bytes) {
  HeldStorage reduced = make(unit, UnitTensor::gradients, bytes, Stream::reduce_scatter);
  // foreach_reduce copies what a single rank has put together, divided by gradient_divide_factor,
  // which torchtitan sets to 1.
  if (units_[unit].ranks == 1) {
    make(unit, UnitTensor::gradients, bytes, Stream::reduce_scatter).drop();
  }
  if (types_.reduced != types_.share) {
    const std::int64_t elements = trained_elements(unit);
    reduced = make(unit, UnitTensor::gradients, checked_multiply(elements, size_of(types_.share)),
                   Stream::reduce_scatter);
  }
  if (units_[unit].adds_to_others || offloads_) return reduced;
  HeldStorage& gradients = states_[unit].gradients;
  if (!gradients.is_of_storage()) gradients = std::move(reduced);
  return {};
}

/// Which of the gradients is that of the parameter registered last: the largest that its padded
/// size holds.
std::size_t ShardedUnits::last_gradient(std::size_t unit, const HeldVector& gradients) const {
  const std::uint32_t parameter = trained(unit).back();
  const TensorPlace& last = timeline_.parameters[parameter];
  const DType type = sums_ ? types_.reduced : gradient_type(parameter);
  const std::int64_t most = last.elements * units_[unit].ranks * size_of(type);
  std::size_t found = gradients.size() - 1;
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::int64_t bytes = timeline_.storages[gradients[i].id()].bytes;
    if (bytes > most || bytes < largest) continue;
    largest = bytes;
    found = i;
  }
  return found;
}

}  // namespace memest
