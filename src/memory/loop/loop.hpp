// The training loop around the model, micro-step by micro-step.
#pragma once

#include <optional>
#include <vector>

#include "memory/engine/engine.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/litgpt/validation.hpp"
#include "memory/loop/context_shares.hpp"
#include "memory/loop/running_mean.hpp"
#include "memory/loop/stand_ins.hpp"
#include "memory/loop/weighed_loss.hpp"
#include "memory/models/teacher_model.hpp"
#include "memory/optimizer/gradient_scaler.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/programs/pipeline_stages.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class TrainingLoop {
 public:
  /// All outlive the loop.
  struct Parts {
    const Job& job;
    const ForwardOrder& order;
    Engine& engine;
    OptimizerRun& optimizer;
    Recorder& recorder;
    TeacherModel* teacher = nullptr;  ///< of a distillation
  };
  explicit TrainingLoop(const Parts& parts);

  /// Micro-batches run through `stages` from here on.
  void run_in(PipelineStages& stages) { stages_ = &stages; }

  void step(std::uint16_t number);

 private:
  struct Loss {
    HeldStorage scalar;
    HeldVector kept;  ///< with its autograd graph
  };

  /// The inputs go first.
  struct Batch {
    HeldStorage mask;  ///< of the tokens that are no padding, where the program sends one
    /// Position ids of joined sequences, where the documents of queries and keys begin, and each
    /// token's document.
    HeldVector documents;
    HeldStorage labels;  ///< where they are a tensor of their own
    HeldStorage types;   ///< of tokens, where the model reads them
    HeldStorage grids;   ///< of images of any size
    HeldStorage images;  ///< of a multimodal model
    HeldStorage inputs;
    HeldVector counts;  ///< of each sequence's tokens
  };

  /// Tensors that the model answers, by name.
  struct Answers {
    HeldStorage& loss;
    HeldStorage& logits;
    HeldVector& others;
  };

  void run_micro_steps();
  void micro_step(std::uint16_t number);
  void run_pipeline();
  void begin_run();
  void return_from_step();
  void send_targets();
  void send_batch(std::uint16_t number);
  Batch next_inputs();
  [[nodiscard]] HeldVector next_documents();
  Batch next_batch();
  void name_batch();
  void load_step();
  void evaluate();
  HeldStorage count_targets(HeldStorage so_far);
  HeldStorage sum_over_ranks(HeldStorage targets);
  void forward(Batch& batch);
  void run_model(Batch& batch);
  void distil(const Batch& batch);
  [[nodiscard]] bool prefers() const;
  void prefer(const Batch& batch);
  void name_answers();
  void take_answer();
  void name_answer(const Batch& batch);
  HeldStorage divided_loss(StorageId loss);
  void copy_answers(const Answers& answers);
  void backward();
  void report_loss();
  void clip();
  HeldStorage make(std::int64_t bytes, Holding holding, LoopTensor tensor);
  HeldStorage scalar(Holding holding, LoopTensor tensor);
  HeldStorage widened(HeldStorage logits);
  [[nodiscard]] bool scales() const;
  [[nodiscard]] bool divides() const;

  const TrainingSpec& training_;
  const ForwardOrder& order_;
  Engine& engine_;
  OptimizerRun& optimizer_;
  Recorder& recorder_;
  const LoopHabits& habits_;
  PipelineStages* stages_ = nullptr;  // null: the whole model is one
  TeacherModel* teacher_;             // null: none
  StandIns others_;                   // of micro-steps that are not followed
  GradientScaler scaler_;
  std::int64_t ranks_ = 1;
  bool sums_targets_ = false;
  bool reduces_last_ = false;  // all but a step's last micro-step run under no_sync()
  bool clips_ = false;  // DeepSpeed does it within its own step, an offloaded optimizer on the host
  bool steps_in_backward_ = false;   // accelerate's DeepSpeedEngineWrapper
  bool casts_loss_ = false;          // what a wrapper answers has another type
  std::int64_t counted_labels_ = 0;  ///< of a micro-step
  std::vector<Batch> batches_;
  HeldStorage targets_;
  HeldStorage float_targets_;
  ContextShares shares_;  // of the running micro-step's batch
  Loss loss_;
  std::vector<Loss> losses_;  // of earlier micro-steps, until the step returns
  Loss reported_;
  HeldVector ended_graph_;  // of the last loss, until training_step returns
  HeldStorage loss_sum_;    // before its division, a name of the step's own
  std::optional<WeighedLoss> weighed_;
  std::optional<RunningMean> mean_;
  std::optional<LitgptValidation> validation_;
  HeldStorage norm_;
  HeldVector held_outputs_;
};

}  // namespace memest
