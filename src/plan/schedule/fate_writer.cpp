#include "plan/schedule/fate_writer.hpp"

#include <algorithm>
#include <utility>

#include "memest/diag/expect.hpp"
#include "plan/schedule/chain_writer.hpp"

namespace memest {

FateWriter::FateWriter(const ScheduledStep& step, std::span<const Fate> fates, std::int64_t budget,
                       SwapRule rule)
    : step_(step.step),
      fates_(fates),
      budget_(budget),
      rule_(rule),
      player_(step),
      held_(fates.size(), 0) {
  for (std::uint32_t i = 0; i < fates.size(); ++i) {
    if (fates[i] == Fate::swap && !step_.tensors[i].savers.empty()) fetched_.push_back(i);
  }
  std::stable_sort(fetched_.begin(), fetched_.end(), [&](std::uint32_t left, std::uint32_t right) {
    return step_.tensors[left].savers.back() > step_.tensors[right].savers.back();
  });
}

WrittenSchedule FateWriter::write() && {
  forward();
  backward();
  return {std::move(actions_), player_.played()};
}

void FateWriter::act(ActionKind kind, std::uint32_t index) {
  const char* const why = player_.apply({kind, index});
  expect(why == nullptr, "a schedule's own actions can be done");
  actions_.push_back({kind, index});
}

void FateWriter::forward() {
  for (std::uint32_t op = 0; op < step_.ops.size(); ++op) {
    drop_copied();
    make_room(player_.height_of_forward(op));
    act(ActionKind::forward, op);
    const StepOp& ran = step_.ops[op];
    for (const std::uint32_t tensor : ran.reads) end_use(tensor, op);
    for (const std::uint32_t tensor : ran.makes) {
      const bool also_read =
          std::find(ran.reads.begin(), ran.reads.end(), tensor) != ran.reads.end();
      if (!also_read) end_use(tensor, op);
    }
  }
}

void FateWriter::end_use(std::uint32_t tensor, std::uint32_t op) {
  const StepTensor& used = step_.tensors[tensor];
  if (last_use_of(used) != op) return;
  if (used.savers.empty() || fates_[tensor] == Fate::recompute) {
    return act(ActionKind::drop, tensor);
  }
  if (fates_[tensor] == Fate::keep) return;
  if (rule_.start == SwapStart::under_pressure) {
    idle_.push_back(tensor);
    return;
  }
  act(ActionKind::copy_out, tensor);
  leaving_.push_back(tensor);
}

/// Copies that have ended cost no wait.
void FateWriter::drop_copied() {
  while (!leaving_.empty() && player_.out_by(leaving_.front()) <= player_.now()) {
    act(ActionKind::drop, leaving_.front());
    leaving_.pop_front();
  }
}

void FateWriter::make_room(std::int64_t height) {
  while (height > budget_ && !(leaving_.empty() && idle_.empty())) {
    if (leaving_.empty()) {
      act(ActionKind::copy_out, idle_.front());
      leaving_.push_back(idle_.front());
      idle_.pop_front();
    }
    height -= step_.tensors[leaving_.front()].bytes;
    act(ActionKind::drop, leaving_.front());
    leaving_.pop_front();
  }
}

void FateWriter::backward() {
  for (auto op = static_cast<std::uint32_t>(step_.ops.size()); op > 0; --op) {
    drop_copied();
    make_room(player_.height_of_backward(op - 1));
    if (rule_.fetches_ahead) prefetch(op - 1);
    for (const std::uint32_t tensor : step_.ops[op - 1].saves) need(tensor, op - 1);
    act(ActionKind::backward, op - 1);
    for (const std::uint32_t tensor : step_.ops[op - 1].saves) {
      if (step_.tensors[tensor].savers.front() != op - 1) continue;
      std::erase(idle_, tensor);
      // A copy that is on its way is not ended: its memory goes with it.
      if (!is_leaving(tensor)) act(ActionKind::drop, tensor);
    }
  }
}

/// Fetches what comes next as soon as the copy before has ended, where it fits beside everything up
/// to its use.
void FateWriter::prefetch(std::uint32_t op) {
  while (next_fetch_ < fetched_.size() && player_.in_by() <= player_.now()) {
    const std::uint32_t tensor = fetched_[next_fetch_];
    const StepTensor& swapped = step_.tensors[tensor];
    const bool waits = player_.on_host(tensor) && !player_.on_device(tensor);
    if (!waits || !is_needed_behind(tensor, op)) {
      ++next_fetch_;
      continue;
    }
    std::int64_t most = 0;
    for (std::uint32_t i = swapped.savers.back(); i <= op; ++i) {
      most = std::max(most, step_.ops[i].backward.most);
    }
    if (player_.live() + swapped.bytes + most > budget_) return;
    act(ActionKind::copy_in, tensor);
    ++next_fetch_;
  }
}

/// Whether a backward that has not run reads it; `op`'s is to run next.
bool FateWriter::is_needed_behind(std::uint32_t tensor, std::uint32_t op) const {
  const auto& savers = step_.tensors[tensor].savers;
  return !savers.empty() && savers.front() <= op;
}

bool FateWriter::is_leaving(std::uint32_t tensor) const {
  return std::find(leaving_.begin(), leaving_.end(), tensor) != leaving_.end();
}

void FateWriter::need(std::uint32_t tensor, std::uint32_t op) {
  if (player_.on_device(tensor)) return;
  if (player_.on_host(tensor)) return act(ActionKind::copy_in, tensor);
  remake(tensor, op);
}

/// Runs the tensor's makers again, and before them those of what they read. Tensors that no
/// backward needs go, unless makers that wait for others are to read them.
void FateWriter::remake(std::uint32_t tensor, std::uint32_t op) {
  ++held_[tensor];
  for (const std::uint32_t maker : step_.tensors[tensor].makers) {
    const StepOp& made_by = step_.ops[maker];
    for (const std::uint32_t read : made_by.reads) {
      if (read != tensor) need(read, op);
      ++held_[read];
    }
    act(ActionKind::forward, maker);
    for (const std::uint32_t read : made_by.reads) --held_[read];
    const auto drop_unneeded = [&](std::uint32_t used) {
      const bool stays = held_[used] > 0 || is_leaving(used) || is_needed_behind(used, op);
      if (player_.on_device(used) && !stays) act(ActionKind::drop, used);
    };
    for (const std::uint32_t read : made_by.reads) drop_unneeded(read);
    for (const std::uint32_t made : made_by.makes) drop_unneeded(made);
  }
  --held_[tensor];
}

bool can_recompute(const StepTensors& step, std::uint32_t tensor) {
  const auto is_whole_for = [&](std::uint32_t read, std::uint32_t maker) {
    return read == tensor || step.tensors[read].makers.back() < maker;
  };
  const std::vector<std::uint32_t>& makers = step.tensors[tensor].makers;
  return std::all_of(makers.begin(), makers.end(), [&](std::uint32_t maker) {
    const StepOp& op = step.ops[maker];
    const bool reads = std::all_of(op.reads.begin(), op.reads.end(),
                                   [&](std::uint32_t read) { return is_whole_for(read, maker); });
    // Others that it makes in place would be changed twice.
    return reads && std::all_of(op.makes.begin(), op.makes.end(), [&](std::uint32_t made) {
             return made == tensor || step.tensors[made].makers.size() == 1;
           });
  });
}

Remaking::Remaking(const StepTensors& step) : step_(step), known_(step.tensors.size()) {
  for (std::uint32_t i = 0; i < step.tensors.size(); ++i) {
    can_recompute_.push_back(can_recompute(step, i));
  }
}

bool Remaking::can_remake(std::span<const Fate> fates, std::uint32_t tensor) {
  ++question_;
  return can_remake(fates, tensor, step_.tensors[tensor].savers.back());
}

bool Remaking::is_there(std::span<const Fate> fates, std::uint32_t tensor, std::uint32_t at) {
  const auto& savers = step_.tensors[tensor].savers;
  const bool held = !savers.empty() && fates[tensor] != Fate::recompute && savers.front() <= at;
  return held || can_remake(fates, tensor, at);
}

bool Remaking::can_remake(std::span<const Fate> fates, std::uint32_t tensor, std::uint32_t at) {
  if (!can_recompute_[tensor]) return false;
  if (known_[tensor].question == question_) return known_[tensor].answer;
  const std::vector<std::uint32_t>& makers = step_.tensors[tensor].makers;
  const bool answer = std::all_of(makers.begin(), makers.end(), [&](std::uint32_t maker) {
    const std::vector<std::uint32_t>& reads = step_.ops[maker].reads;
    return std::all_of(reads.begin(), reads.end(), [&](std::uint32_t read) {
      return read == tensor || is_there(fates, read, at);
    });
  });
  known_[tensor] = {question_, answer};
  return answer;
}

std::vector<Action> by_fates(const ScheduledStep& step, std::span<const Fate> fates,
                             std::int64_t budget) {
  return FateWriter(step, fates, budget).write().actions;
}

}  // namespace memest
