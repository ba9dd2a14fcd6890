// The loop around a model that does not train: prompts one after another, each through one forward
// under torch.no_grad. Its outputs are dropped before the next prompt is sent.
#pragma once

#include "memory/engine/engine.hpp"
#include "memory/generation/decoder_model.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class InferenceLoop {
 public:
  InferenceLoop(const ForwardOrder& order, Engine& engine, Recorder& recorder)
      : order_(order), engine_(engine), recorder_(recorder) {}

  void prompt(std::uint16_t number);

 private:
  const ForwardOrder& order_;
  Engine& engine_;
  Recorder& recorder_;
};

/// Forwards of prompts, or whole generations behind them: a few, which let the allocator settle.
void run_prompts(const InferenceSpec& inference, const DecoderModel::Parts& parts);

}  // namespace memest
