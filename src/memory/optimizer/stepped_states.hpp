// The states of a rank as Megatron's loop sees them, whoever keeps and steps them: its own
// optimizer, or DeepSpeed's.
#pragma once

#include <cstdint>

namespace memest {

class Recorder;

class SteppedStates {
 public:
  SteppedStates() = default;
  SteppedStates(const SteppedStates&) = delete;
  SteppedStates(SteppedStates&&) = delete;
  SteppedStates& operator=(const SteppedStates&) = delete;
  SteppedStates& operator=(SteppedStates&&) = delete;
  virtual ~SteppedStates() = default;

  virtual void zero_grad() = 0;
  /// All backwards of a step have run.
  virtual void finish_gradients() {}
  virtual void step(Recorder& recorder) = 0;
  /// Elements of the parameters whose gradients tensor-parallel ranks have parts of.
  [[nodiscard]] virtual std::int64_t tensor_summed_elements() const = 0;
};

}  // namespace memest
