// Writes the actions of a schedule over a chain: stages run forward with or without keeping what
// their backward reads, and backward.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "memest/plan/schedule.hpp"

namespace memest {

/// How stages [first, last] of a chain are reversed, the first one's input being there.
struct ChainChoice {
  /// The stage up to which none keeps anything; reversed first with all behind it, then those
  /// before. Zero: the first keeps what its backward reads.
  std::uint32_t checkpoint = 0;
};
using ChooseInChain = std::function<ChainChoice(std::uint32_t first, std::uint32_t last)>;

class ChainWriter {
 public:
  ChainWriter(const StepTensors& step, const std::vector<ChainStage>& chain);

  /// The actions of the whole chain.
  std::vector<Action> write(const ChooseInChain& choose) &&;

 private:
  void reverse(std::uint32_t first, std::uint32_t last, const ChooseInChain& choose);
  void forward(std::uint32_t stage, bool keeps);
  void backward(std::uint32_t stage);
  void end_input(std::uint32_t stage);
  void drop(std::uint32_t tensor);
  void drop_used(std::uint32_t op, std::uint32_t stage, bool keeps);

  const StepTensors& step_;
  const std::vector<ChainStage>& chain_;
  std::vector<Action> actions_;
  std::vector<bool> on_device_;  // by tensor
  std::vector<bool> kept_;       // by stage
  std::uint32_t reversed_from_;  // the first stage whose backward has run
};

/// The last operation of the forward that reads the tensor or changes it.
std::uint32_t last_use_of(const StepTensor& tensor);

/// Behind the last operation of a stage that makes what the stage's backward reads: a forward for
/// that backward alone ends there (torch/utils/checkpoint.py, _StopRecomputationError).
std::uint32_t end_of_rerun(const StepTensors& step, const ChainStage& stage);

}  // namespace memest
