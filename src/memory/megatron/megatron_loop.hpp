// Megatron-core's forward_backward_func and optimizer step around it: without a pipeline micro-step
// by micro-step, with one in the order of its schedule, many micro-steps in flight.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memory/engine/engine.hpp"
#include "memory/megatron/loss_scales.hpp"
#include "memory/megatron/megatron_batches.hpp"
#include "memory/optimizer/stepped_states.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class MegatronLoop {
 public:
  struct Parts {
    const Job& job;
    std::int64_t rank = 0;  ///< of the job's pipeline
    const ForwardOrder& order;
    Engine& engine;
    SteppedStates& states;
    Recorder& recorder;
    std::optional<LaunchDevice> device;
  };
  explicit MegatronLoop(const Parts& parts);

  /// Micro-steps of a step that are followed: more make the same events.
  [[nodiscard]] static std::int64_t followed_micro_steps(const Job& job);

  void step(std::uint16_t number);

 private:
  /// A tensor from the stage before: its gradient lives as long as it does.
  struct Received {
    HeldStorage data;
    HeldStorage copy;  ///< that DeepSpeed's engine gives the model
    HeldStorage gradient;
  };
  /// The loss, or what is left of a result that was sent. Its graph holds the stage's input.
  struct Output {
    std::shared_ptr<Received> input;  ///< null in the first stage
    HeldStorage data;
    HeldVector leaves;  ///< of its graph: frozen embeddings' result and the gradient of that
  };
  /// A micro-step between its forward and its backward in one chunk.
  struct Flight {
    std::int64_t chunk = 0;
    std::shared_ptr<Output> output;
    HeldStorage mask;  ///< of the losses that count
    HeldStorage attention_mask;
    HeldStorage counted_loss;  ///< how many they are
    HeldVector leaves;         ///< see Output
    FlightState state;
  };

  HeldStorage make(std::int64_t bytes, Holding holding, LoopTensor tensor);
  HeldStorage scalar(LoopTensor tensor);
  HeldStorage sum_of_tokens(LoopTensor tensor);
  [[nodiscard]] bool is_first(std::int64_t chunk) const;
  [[nodiscard]] bool is_last(std::int64_t chunk) const;
  HeldStorage receive();
  std::shared_ptr<Received> receive_input(std::int64_t chunk);
  HeldStorage forward(Flight& flight, const std::shared_ptr<Received>& input);
  void add_loss(HeldStorage per_token, Flight& flight);
  StorageId backward_of_loss(Flight& flight, HeldStorage& loss);
  StorageId backward_of_stage(Flight& flight, StorageId gradient);
  void micro_step(std::uint16_t number);
  void run_forward(std::int64_t chunk, std::shared_ptr<Received> input);
  void send_output(bool loss);
  void run_backward(std::int64_t chunk, HeldStorage gradient);
  [[nodiscard]] std::vector<PipelineAction> actions() const;
  void run_one_by_one();
  void run_interleaved();
  void receive_next(const PipelineAction* forward, const PipelineAction* backward);
  void end_pipeline();
  void begin_capture();
  void finish_gradients();

  const Job& job_;
  const TrainingSpec& training_;
  const ForwardOrder& order_;
  Engine& engine_;
  SteppedStates& states_;
  Recorder& recorder_;
  std::optional<LaunchDevice> device_;
  MegatronBatches batches_;
  LossScales scales_;
  bool by_deepspeed_;     // its engine runs the pipeline
  std::int64_t seq_len_;  // of a rank
  PipelinePlace place_;
  std::int64_t micro_steps_ = 0;                         ///< of the step that runs, followed
  std::int64_t stream_bytes_ = 0;                        ///< of what stages send each other
  HeldStorage mask_;                                     // of attention, for all micro-steps
  std::vector<std::shared_ptr<Received>> model_inputs_;  // by chunk: set_input_tensor holds them
  std::vector<HeldStorage> tokens_;  // by chunk: what its data iterator made last
  HeldVector losses_;                // of the step
  HeldVector reported_;              // of the last, where its graph names them
  HeldVector leaves_;                // of the last graph, where there is no pipeline
  std::deque<Flight> flights_;
  // By chunk, of an interleaved schedule: what was received and waits.
  std::vector<std::deque<std::shared_ptr<Received>>> inputs_;
  std::vector<std::deque<HeldStorage>> gradients_;
  // Names of the schedule's function.
  std::shared_ptr<Output> output_;
  HeldStorage gradient_;   // that was received last
  HeldStorage received_;   // DeepSpeed's buffer for what the stage before sends
  HeldStorage sent_back_;  // of the input whose backward ran last
};

}  // namespace memest
