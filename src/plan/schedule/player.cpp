#include "plan/schedule/player.hpp"

#include <algorithm>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// How many of a tensor's makers run before an operation.
std::uint32_t makers_before(const StepTensor& tensor, std::uint32_t op) {
  const auto end = std::lower_bound(tensor.makers.begin(), tensor.makers.end(), op);
  return static_cast<std::uint32_t>(end - tensor.makers.begin());
}

}  // namespace

Player::Player(const ScheduledStep& step)
    : step_(step),
      states_(step.step.tensors.size()),
      next_backward_(static_cast<std::uint32_t>(step.step.ops.size())) {}

const char* Player::apply(Action action) {
  switch (action.kind) {
    case ActionKind::forward:
      return run_forward(action.index);
    case ActionKind::backward:
      return run_backward(action.index);
    case ActionKind::drop:
      return drop(action.index);
    case ActionKind::copy_out:
      return copy_out(action.index);
    case ActionKind::copy_in:
      return copy_in(action.index);
  }
  unreachable("every action is played");
}

void Player::wait_until(double seconds) {
  if (seconds <= now_) return;
  played_.waited += seconds - now_;
  now_ = seconds;
  played_.seconds = now_;
}

void Player::reach(std::int64_t bytes, std::size_t pass) {
  if (bytes <= played_.peak) return;
  played_.peak = bytes;
  played_.peak_at = pass;
}

/// As the operation met it: not before its makers, nor behind a change in place.
bool Player::can_read(std::uint32_t tensor, std::uint32_t by) const {
  const State& state = states_[tensor];
  return state.on_device && state.written == makers_before(step_.step.tensors[tensor], by);
}

std::int64_t Player::fresh_bytes(std::uint32_t op) const {
  std::int64_t bytes = 0;
  for (const std::uint32_t tensor : step_.step.ops[op].makes) {
    if (!states_[tensor].on_device) bytes += step_.step.tensors[tensor].bytes;
  }
  return bytes;
}

/// Run again, an operation has its own temporaries beside what the backward that waits for it
/// holds.
std::int64_t Player::height_of_forward(std::uint32_t op) const {
  const PassHeight& own = step_.step.ops[op].forward;
  const std::int64_t tensors = live_ + fresh_bytes(op);
  if (op >= next_forward_) return tensors + own.most;
  const std::int64_t temporaries = std::max<std::int64_t>(0, own.most - own.before);
  const bool forwards = next_forward_ < step_.step.ops.size();
  const std::int64_t beside = forwards ? step_.step.ops[next_forward_].forward.before
                                       : step_.step.ops[next_backward_ - 1].backward.before;
  return tensors + beside + temporaries;
}

const char* Player::run_forward(std::uint32_t op) {
  const StepOp& ran = step_.step.ops[op];
  if (op > next_forward_) return "an earlier operation has not run";
  if (is_over()) return "the step is over";
  for (const std::uint32_t tensor : ran.reads) {
    if (!can_read(tensor, op)) return "its input is not on the device";
    wait_until(states_[tensor].in_by);
  }
  reach(height_of_forward(op), op == next_forward_ ? op : next_backward_pass());
  for (const std::uint32_t tensor : ran.makes) {
    State& state = states_[tensor];
    const StepTensor& made = step_.step.tensors[tensor];
    const std::uint32_t place = makers_before(made, op);
    if (!state.on_device && place > 0) return "what it changes in place is not on the device";
    // Another output of an operation that runs again may have stayed: it is as it was.
    if (state.on_device && state.written > place) {
      if (place > 0 || made.makers.size() > 1) return "it would change its output twice";
      continue;
    }
    if (!state.on_device) live_ += made.bytes;
    state.on_device = true;
    state.written = place + 1;
    state.in_by = 0;
  }
  now_ += step_.forward[op];
  if (op < next_forward_) {
    played_.recomputed += step_.forward[op];
  } else {
    ++next_forward_;
  }
  played_.seconds = now_;
  return nullptr;
}

const char* Player::run_backward(std::uint32_t op) {
  if (next_forward_ != step_.step.ops.size()) return "the forward is not over";
  if (op + 1 != next_backward_) return "backwards run in reverse";
  for (const std::uint32_t tensor : step_.step.ops[op].saves) {
    const State& state = states_[tensor];
    const bool whole = state.written == step_.step.tensors[tensor].makers.size();
    if (!state.on_device || !whole) return "what it saved is not on the device";
    wait_until(state.in_by);
  }
  reach(height_of_backward(op), next_backward_pass());
  now_ += step_.backward[op];
  played_.seconds = now_;
  --next_backward_;
  return nullptr;
}

const char* Player::drop(std::uint32_t tensor) {
  State& state = states_[tensor];
  if (!state.on_device) return "it is not on the device";
  if (state.on_host) wait_until(state.out_by);
  live_ -= step_.step.tensors[tensor].bytes;
  state.on_device = false;
  state.written = 0;
  return nullptr;
}

const char* Player::copy_out(std::uint32_t tensor) {
  State& state = states_[tensor];
  const StepTensor& copied = step_.step.tensors[tensor];
  if (!state.on_device || state.written != copied.makers.size()) {
    return "it is not on the device";
  }
  if (state.on_host) return "it is on the host";
  out_by_ = std::max({out_by_, now_, state.in_by}) + step_.out[tensor];
  state.out_by = out_by_;
  state.on_host = true;
  host_ += copied.bytes;
  played_.copied += copied.bytes;
  played_.host_peak = std::max(played_.host_peak, host_);
  return nullptr;
}

const char* Player::copy_in(std::uint32_t tensor) {
  State& state = states_[tensor];
  if (!state.on_host) return "it is not on the host";
  if (state.on_device) return "it is on the device";
  const StepTensor& copied = step_.step.tensors[tensor];
  in_by_ = std::max({in_by_, now_, state.out_by}) + step_.in[tensor];
  state.in_by = in_by_;
  state.on_host = false;
  state.on_device = true;
  state.written = static_cast<std::uint32_t>(copied.makers.size());
  host_ -= copied.bytes;
  live_ += copied.bytes;
  if (next_backward_ > 0) {
    reach(live_ + step_.step.ops[next_backward_ - 1].backward.before, next_backward_pass());
  }
  return nullptr;
}

std::variant<Played, WrongAction> play(const ScheduledStep& step, std::span<const Action> actions) {
  Player player(step);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (const char* why = player.apply(actions[i])) return WrongAction{i, why};
  }
  if (!player.is_over()) return WrongAction{actions.size(), "a backward is missing"};
  return player.played();
}

}  // namespace memest
