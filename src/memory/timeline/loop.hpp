// The training loop around the model: plain PyTorch, micro-step by micro-step.
#pragma once

#include "engine.hpp"
#include "gradient_scaler.hpp"
#include "optimizer_run.hpp"
#include "recorder.hpp"

namespace memest {

class TrainingLoop {
 public:
  TrainingLoop(const Job& job, const ForwardOrder& order, Engine& engine, OptimizerRun& optimizer,
               Recorder& recorder);

  void step(std::uint16_t number);

 private:
  struct Loss {
    StorageId scalar = kNoStorage;
    std::vector<StorageId> kept;  ///< with its autograd graph
  };

  void drop(const Loss& loss);
  void micro_step(std::uint16_t number);
  void load_batch();
  void forward();
  void backward();
  StorageId scalar(Holding holding, LoopTensor tensor);
  [[nodiscard]] bool scales() const;

  const TrainingSpec& training_;
  const ForwardOrder& order_;
  Engine& engine_;
  OptimizerRun& optimizer_;
  Recorder& recorder_;
  GradientScaler scaler_;
  StorageId batch_ = kNoStorage;
  Loss loss_;
  Loss loss_of_last_step_;
  StorageId held_logits_ = kNoStorage;
  StorageId held_loss_ = kNoStorage;
};

}  // namespace memest
