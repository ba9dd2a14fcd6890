#include "plan/schedule/chain_writer.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace memest {

std::uint32_t last_use_of(const StepTensor& tensor) {
  const std::uint32_t made = tensor.makers.back();
  return tensor.readers.empty() ? made : std::max(made, tensor.readers.back());
}

ChainWriter::ChainWriter(const StepTensors& step, const std::vector<ChainStage>& chain)
    : step_(step),
      chain_(chain),
      on_device_(step.tensors.size(), false),
      kept_(chain.size(), false),
      reversed_from_(static_cast<std::uint32_t>(chain.size())) {}

std::vector<Action> ChainWriter::write(const ChooseInChain& choose) && {
  reverse(0, static_cast<std::uint32_t>(chain_.size()) - 1, choose);
  return std::move(actions_);
}

void ChainWriter::reverse(std::uint32_t first, std::uint32_t last, const ChooseInChain& choose) {
  const std::uint32_t checkpoint = first == last ? 0 : choose(first, last).checkpoint;
  if (checkpoint > first) {
    for (std::uint32_t stage = first; stage < checkpoint; ++stage) {
      forward(stage, false);
      if (stage > first) drop(*chain_[stage].input);
    }
    reverse(checkpoint, last, choose);
    return reverse(first, checkpoint - 1, choose);
  }
  forward(first, true);
  kept_[first] = true;
  if (first < last) reverse(first + 1, last, choose);
  backward(first);
  kept_[first] = false;
  end_input(first);
}

void ChainWriter::drop(std::uint32_t tensor) {
  if (!on_device_[tensor]) return;
  on_device_[tensor] = false;
  actions_.push_back({ActionKind::drop, tensor});
}

std::uint32_t end_of_rerun(const StepTensors& step, const ChainStage& stage) {
  std::uint32_t end = stage.begin;
  for (std::uint32_t op = stage.begin; op < stage.end; ++op) {
    for (const std::uint32_t tensor : step.ops[op].makes) {
      const auto& savers = step.tensors[tensor].savers;
      if (!savers.empty() && savers.front() < stage.end) end = op + 1;
    }
  }
  return end;
}

/// Its answer is the next stage's input, unless that one has been reversed: then it runs for what
/// its own backward reads.
void ChainWriter::forward(std::uint32_t stage, bool keeps) {
  const bool reruns = keeps && stage + 1 == reversed_from_ && stage + 1 < chain_.size();
  const std::uint32_t end = reruns ? end_of_rerun(step_, chain_[stage]) : chain_[stage].end;
  for (std::uint32_t op = chain_[stage].begin; op < end; ++op) {
    actions_.push_back({ActionKind::forward, op});
    for (const std::uint32_t tensor : step_.ops[op].makes) on_device_[tensor] = true;
    drop_used(op, stage, keeps);
  }
  if (!reruns) return;
  const std::optional<std::uint32_t> input = chain_[stage].input;
  if (input && step_.tensors[*input].savers.empty()) drop(*input);
  for (std::uint32_t op = chain_[stage].begin; op < end; ++op) {
    for (const std::uint32_t tensor : step_.ops[op].makes) {
      const auto& savers = step_.tensors[tensor].savers;
      if (savers.empty() || savers.front() >= chain_[stage].end) drop(tensor);
    }
  }
}

/// Drops what an operation reads or makes for the last time in the forward.
void ChainWriter::drop_used(std::uint32_t op, std::uint32_t stage, bool keeps) {
  const auto end_use = [&](std::uint32_t tensor) {
    const StepTensor& used = step_.tensors[tensor];
    if (last_use_of(used) != op || (keeps && !used.savers.empty())) return;
    // Its input it may need to run again, unless it keeps.
    if (used.makers.front() < chain_[stage].begin && !keeps) return;
    drop(tensor);
  };
  for (const std::uint32_t tensor : step_.ops[op].reads) end_use(tensor);
  for (const std::uint32_t tensor : step_.ops[op].makes) end_use(tensor);
}

void ChainWriter::backward(std::uint32_t stage) {
  for (std::uint32_t op = chain_[stage].end; op > chain_[stage].begin; --op) {
    actions_.push_back({ActionKind::backward, op - 1});
    for (const std::uint32_t tensor : step_.ops[op - 1].saves) {
      const StepTensor& saved = step_.tensors[tensor];
      const bool own = saved.makers.front() >= chain_[stage].begin;
      if (own && saved.savers.front() == op - 1) drop(tensor);
    }
  }
  reversed_from_ = stage;
}

/// Where the stage before keeps it for a backward of its own it stays.
void ChainWriter::end_input(std::uint32_t stage) {
  if (!chain_[stage].input) return;
  const std::uint32_t input = *chain_[stage].input;
  const auto& savers = step_.tensors[input].savers;
  const bool saved_before = !savers.empty() && savers.front() < chain_[stage].begin;
  if (stage > 0 && kept_[stage - 1] && saved_before) return;
  drop(input);
}

}  // namespace memest
