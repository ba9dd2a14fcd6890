#include "memory/deepspeed/weight_coordinator.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "memest/units/int128.hpp"
#include "memory/states/flat_partitions.hpp"

namespace memest {

WeightCoordinator::WeightCoordinator(const Settings& settings, std::vector<Weight> weights,
                                     std::vector<std::vector<std::uint32_t>> modules,
                                     Recorder& recorder)
    : settings_(settings),
      weights_(std::move(weights)),
      modules_(std::move(modules)),
      recorder_(recorder),
      states_(weights_.size()),
      evaluated_(modules_.size(), false) {}

std::int64_t WeightCoordinator::piece(std::uint32_t weight) const {
  return piece_of(weights_[weight].elements, settings_.ranks);
}

/// Elements of all ranks' pieces.
std::int64_t WeightCoordinator::whole(std::uint32_t weight) const {
  return checked_multiply(piece(weight), settings_.ranks);
}

bool WeightCoordinator::is_persistent(std::uint32_t weight) const {
  return weights_[weight].elements <= settings_.persistence_threshold;
}

HeldStorage WeightCoordinator::make(std::uint32_t weight, UnitTensor tensor, std::int64_t elements,
                                    PartStream stream) {
  Label label;
  label.holding = holding_of(tensor);
  label.origin = Origin::unit;
  label.place = weights_[weight].instance;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return recorder_.make(checked_multiply(elements, weights_[weight].element_bytes), label, stream);
}

/// reset_step begins the list anew, of the calls that the first run has written down, and counts
/// what is there from zero, though weights that stay are there.
void WeightCoordinator::begin_run() {
  give_back_in_flight();
  if (trace_ == Trace::recorded) {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      for (const std::uint32_t weight : modules_[calls_[i]]) {
        needed_.push_back({weight, static_cast<std::int64_t>(i)});
      }
    }
  }
  if (trace_ != Trace::complete) {
    trace_ = trace_ == Trace::none ? Trace::recorded : Trace::complete;
  }
  next_needed_ = 0;
  for (State& state : states_) state.fetched_for = kNever;
  call_ = 0;
  available_ = 0;
}

/// fetch_sub_module, in_checkpoint_recompute, and update_recompute_parameters.
void WeightCoordinator::before_forward(Module module) {
  evaluated_[module] = false;
  fetch(module);
  if (in_backward_.empty()) return;
  InBackward& last = in_backward_.back();
  for (const std::uint32_t weight : modules_[module]) {
    if (weights_[weight].trained) continue;
    last.run_again.push_back(weight);
    activate(last.module, weight);
  }
}

void WeightCoordinator::before_evaluation(Module module) {
  evaluated_[module] = true;
  fetch(module);
}

std::vector<WeightCoordinator::InBackward>::iterator WeightCoordinator::find_in_backward(
    Module module) {
  return std::ranges::find(in_backward_, module, &InBackward::module);
}

void WeightCoordinator::before_backward(Module module) {
  if (find_in_backward(module) == in_backward_.end()) in_backward_.push_back({module});
  fetch(module);
}

/// PostBackwardFunctionModule counts the inputs of the last forward (ds_grads_remaining): one under
/// no_grad has none, and what a backward counts down from there never comes to 0.
void WeightCoordinator::after_backward(Module module) {
  if (evaluated_[module]) return;
  const auto begun = find_in_backward(module);
  if (begun == in_backward_.end()) return;
  release(module, begun->run_again);
  in_backward_.erase(begun);
}

/// Weights that come so are not counted.
void WeightCoordinator::read(Module reader, const std::vector<std::uint32_t>& weights) {
  for (const std::uint32_t weight : weights) {
    State& state = states_[weight];
    if (state.status != Status::not_available) continue;
    std::vector<std::uint32_t>& own = modules_[reader];
    own.insert(std::lower_bound(own.begin(), own.end(), weight), weight);
    state.whole = make(weight, UnitTensor::weight, whole(weight), Stream::compute);
    state.status = Status::available;
  }
}

/// _clean_inflight_param_registry: of weights that came together it has those that nobody has
/// needed yet.
void WeightCoordinator::give_back_in_flight() {
  std::vector<std::uint32_t> in_flight;
  for (std::uint32_t weight = 0; weight < weights_.size(); ++weight) {
    const State& state = states_[weight];
    const bool waits = state.status == Status::in_flight || state.gathering != nullptr;
    if (waits) in_flight.push_back(weight);
  }
  std::ranges::sort(in_flight, {}, [&](std::uint32_t weight) { return weights_[weight].number; });
  for (const std::uint32_t weight : in_flight) {
    wait(weight);
    give_back(weight);
  }
}

/// _invalidate_trace, which leaves what __params_to_release has remembered.
void WeightCoordinator::forget_calls() {
  trace_ = Trace::none;
  calls_.clear();
  needed_.clear();
  next_needed_ = 0;
  for (State& state : states_) state.fetched_for = kNever;
  give_back_in_flight();
}

/// trace_prologue.
void WeightCoordinator::expect(Module module) {
  if (trace_ != Trace::complete) return;
  const auto next = static_cast<std::size_t>(call_);
  if (next >= calls_.size() || calls_[next] != module) forget_calls();
}

/// fetch_sub_module.
void WeightCoordinator::fetch(Module module) {
  expect(module);
  if (trace_ == Trace::recorded) calls_.push_back(module);
  const std::vector<std::uint32_t>& weights = modules_[module];
  gather(weights);
  for (const std::uint32_t weight : weights) {
    activate(module, weight);
    wait(weight);
  }
  if (trace_ == Trace::complete) {
    take_from_queue(weights);
    prefetch();
  }
  ++call_;
}

/// __all_gather_params. One weight comes in its own memory (_all_gather_sequential), several in one
/// tensor of all ranks' pieces of them (_all_gather_coalesced).
void WeightCoordinator::gather(std::vector<std::uint32_t> weights) {
  weights.erase(std::remove_if(weights.begin(), weights.end(),
                               [&](std::uint32_t weight) {
                                 return states_[weight].status != Status::not_available;
                               }),
                weights.end());
  if (weights.empty()) return;
  for (const std::uint32_t weight : weights) {
    available_ += weights_[weight].elements;
    states_[weight].status = Status::in_flight;
  }
  if (settings_.ranks == 1) return bring_alone(weights, settings_.stream);
  if (weights.size() > 1) return gather_together(std::move(weights));
  states_[weights.front()].whole =
      make(weights.front(), UnitTensor::weight, whole(weights.front()), settings_.stream);
  bring_pieces(weights, settings_.stream);
}

/// _all_gather_dtype, narrow types first (sort_dtypes).
void WeightCoordinator::gather_together(std::vector<std::uint32_t> weights) {
  const auto bytes = [&](std::uint32_t weight) { return weights_[weight].element_bytes; };
  std::ranges::stable_sort(weights, {}, bytes);
  auto gathering = std::make_shared<Gathering>();
  for (auto begin = weights.begin(); begin != weights.end();) {
    const auto end = std::ranges::upper_bound(begin, weights.end(), bytes(*begin), {}, bytes);
    std::int64_t elements = 0;
    for (auto at = begin; at != end; ++at) elements = checked_add(elements, whole(*at));
    gathering->flats.push_back(
        make(*begin, UnitTensor::all_gather_output, elements, settings_.stream));
    bring_pieces({begin, end}, settings_.stream);
    begin = end;
  }
  for (const std::uint32_t weight : weights) states_[weight].gathering = gathering;
  gathering->weights = std::move(weights);
}

/// NoGatherHandle: the piece is the weight, there or on its way from the host.
void WeightCoordinator::bring_alone(const std::vector<std::uint32_t>& weights, PartStream stream) {
  if (!settings_.pieces_on_host) return;
  for (const std::uint32_t weight : weights) {
    states_[weight].whole = make(weight, UnitTensor::weight, whole(weight), stream);
  }
}

/// param.ds_tensor.to(current_device_name()), of all that are gathered at once.
void WeightCoordinator::bring_pieces(const std::vector<std::uint32_t>& weights, PartStream stream) {
  if (!settings_.pieces_on_host) return;
  HeldList pieces;
  for (const std::uint32_t weight : weights) {
    pieces.push_back(make(weight, UnitTensor::cast_shares, piece(weight), stream));
  }
}

/// AllGatherCoalescedHandle.wait: torch.cat of a weight's pieces, of all that came together.
void WeightCoordinator::wait(std::uint32_t weight) {
  const std::shared_ptr<Gathering> gathering = std::exchange(states_[weight].gathering, nullptr);
  if (gathering == nullptr) {
    if (states_[weight].status == Status::in_flight) states_[weight].status = Status::available;
    return;
  }
  if (std::exchange(gathering->complete, true)) return;
  for (const std::uint32_t other : gathering->weights) {
    states_[other].whole =
        make(other, UnitTensor::weight, weights_[other].elements, settings_.stream);
    states_[other].status = Status::available;
  }
}

/// A call takes what it needs off the list of what is fetched ahead.
void WeightCoordinator::take_from_queue(const std::vector<std::uint32_t>& weights) {
  const auto missing = static_cast<std::size_t>(
      std::count_if(weights.begin(), weights.end(),
                    [&](std::uint32_t weight) { return states_[weight].fetched_for < call_; }));
  std::vector<std::uint32_t> taken;
  while (next_needed_ < needed_.size() && taken.size() < missing) {
    const Needed& next = needed_[next_needed_++];
    states_[next.weight].fetched_for = next.call;
    if (std::find(taken.begin(), taken.end(), next.weight) == taken.end())
      taken.push_back(next.weight);
  }
}

void WeightCoordinator::prefetch() {
  if (settings_.prefetch_bucket <= 0) return;
  const std::int64_t most = std::min(settings_.max_live - available_, settings_.prefetch_bucket);
  std::vector<std::uint32_t> ahead;
  std::int64_t elements = 0;
  while (next_needed_ < needed_.size() && elements < most) {
    const Needed& next = needed_[next_needed_++];
    State& state = states_[next.weight];
    state.fetched_for = std::max(state.fetched_for, next.call);
    const bool listed = std::find(ahead.begin(), ahead.end(), next.weight) != ahead.end();
    if (state.status != Status::not_available || listed) continue;
    ahead.push_back(next.weight);
    elements += weights_[next.weight].elements;
  }
  std::ranges::sort(ahead, {}, [&](std::uint32_t weight) { return weights_[weight].number; });
  gather(std::move(ahead));
}

/// release_sub_module.
void WeightCoordinator::release(Module module, const std::vector<std::uint32_t>& run_again) {
  const std::vector<std::uint32_t>& released = released_behind(module);
  for (const std::uint32_t weight : modules_[module]) {
    forget(module, weight);
    if (std::find(released.begin(), released.end(), weight) != released.end()) give_back(weight);
  }
  for (const std::uint32_t weight : run_again) {
    forget(module, weight);
    if (!is_persistent(weight)) give_back(weight);
  }
}

void WeightCoordinator::activate(Module module, std::uint32_t weight) {
  std::vector<Module>& active = states_[weight].active;
  if (std::find(active.begin(), active.end(), module) == active.end()) active.push_back(module);
}

void WeightCoordinator::forget(Module module, std::uint32_t weight) {
  std::vector<Module>& active = states_[weight].active;
  active.erase(std::remove(active.begin(), active.end(), module), active.end());
}

/// __release_param.
void WeightCoordinator::give_back(std::uint32_t weight) {
  State& state = states_[weight];
  if (state.status != Status::available || !state.active.empty()) return;
  state.whole.drop();
  state.status = Status::not_available;
  available_ -= weights_[weight].elements;
}

/// __params_to_release, which remembers what it has answered (functools.lru_cache).
const std::vector<std::uint32_t>& WeightCoordinator::released_behind(Module module) {
  if (trace_ != Trace::complete) return modules_[module];
  const auto [known, is_new] = released_.try_emplace({call_, module});
  if (is_new) known->second = not_needed_soon(module);
  return known->second;
}

std::vector<std::uint32_t> WeightCoordinator::not_needed_soon(Module module) const {
  std::vector<std::uint32_t> released;
  for (const std::uint32_t weight : modules_[module]) {
    if (!is_persistent(weight) && states_[weight].fetched_for <= call_) released.push_back(weight);
  }
  std::int64_t elements = 0;
  for (auto i = static_cast<std::size_t>(call_); i < calls_.size() && !released.empty(); ++i) {
    if (elements >= settings_.max_reuse_distance) break;
    for (const std::uint32_t weight : modules_[calls_[i]]) {
      released.erase(std::remove(released.begin(), released.end(), weight), released.end());
      elements += weights_[weight].elements;
    }
  }
  return released;
}

void WeightCoordinator::end_backward() {
  for (; !in_backward_.empty(); in_backward_.pop_back()) {
    auto& [module, left] = in_backward_.back();
    left.insert(left.end(), modules_[module].begin(), modules_[module].end());
    for (const std::uint32_t weight : left) {
      forget(module, weight);
      if (!is_persistent(weight)) give_back(weight);
    }
  }
}

void WeightCoordinator::release_all() {
  for (std::uint32_t weight = 0; weight < weights_.size(); ++weight) {
    wait(weight);
    states_[weight].active.clear();
    give_back(weight);
  }
}

/// _post_step: Parameter.all_gather of the persistent ones (_allgather_params_coalesced, which
/// gives each its own memory).
void WeightCoordinator::gather_persistent() {
  HeldList pieces;
  for (std::uint32_t weight = 0; weight < weights_.size(); ++weight) {
    if (!is_persistent(weight) || settings_.ranks == 1 || !settings_.pieces_on_host) continue;
    pieces.push_back(make(weight, UnitTensor::cast_shares, piece(weight), Stream::compute));
  }
  for (std::uint32_t weight = 0; weight < weights_.size(); ++weight) {
    if (!is_persistent(weight)) continue;
    if (settings_.ranks == 1) {
      bring_alone({weight}, Stream::compute);
    } else {
      states_[weight].whole = make(weight, UnitTensor::weight, whole(weight), Stream::compute);
    }
    states_[weight].status = Status::available;
  }
}

HeldStorage WeightCoordinator::share(std::uint32_t weight) const {
  return recorder_.share(states_[weight].whole.id());
}

/// Parameter.all_gather and partition, in turn (_allgather_params_sequential).
void WeightCoordinator::gather_once(std::uint32_t weight) {
  const HeldStorage gathered = make(weight, UnitTensor::weight, whole(weight), Stream::compute);
  bring_pieces({weight}, Stream::compute);
}

}  // namespace memest
