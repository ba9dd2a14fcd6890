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
#include "memory/engine/recorder.hpp"
#include "memory/sharding/megatron_states.hpp"

namespace memest {

class MegatronLoop {
 public:
  struct Parts {
    const Job& job;
    std::int64_t rank = 0;  ///< of the job's pipeline
    const ForwardOrder& order;
    Engine& engine;
    MegatronStates& states;
    Recorder& recorder;
    std::optional<LaunchDevice> device;
  };
  explicit MegatronLoop(const Parts& parts);
  ~MegatronLoop();
  MegatronLoop(const MegatronLoop&) = delete;
  MegatronLoop& operator=(const MegatronLoop&) = delete;

  void step(std::uint16_t number);

 private:
  /// A tensor from the stage before: its gradient lives as long as it does.
  struct Received {
    Recorder* recorder = nullptr;  ///< null: it outlives the run
    StorageId data = kNoStorage;
    StorageId gradient = kNoStorage;

    ~Received();
  };
  /// The loss, or what is left of a result that was sent. Its graph holds the stage's input.
  struct Output {
    Recorder& recorder;
    StorageId data = kNoStorage;
    std::shared_ptr<Received> input;  ///< null in the first stage

    ~Output() { recorder.release(data); }
  };
  /// A micro-step between its forward and its backward in one chunk.
  struct Flight {
    std::int64_t chunk = 0;
    std::shared_ptr<Output> output;
    StorageId mask = kNoStorage;  ///< of the losses that count
    StorageId attention_mask = kNoStorage;
    StorageId counted_loss = kNoStorage;  ///< how many they are
    Engine::InFlight state;
  };

  StorageId make(std::int64_t bytes, Holding holding, LoopTensor tensor);
  StorageId scalar(LoopTensor tensor);
  StorageId sum_of_tokens(LoopTensor tensor);
  [[nodiscard]] bool loads_masks() const;
  [[nodiscard]] bool is_first(std::int64_t chunk) const;
  [[nodiscard]] bool is_last(std::int64_t chunk) const;
  StorageId receive();
  std::shared_ptr<Received> receive_input(std::int64_t chunk);
  StorageId forward(Flight& flight, const std::shared_ptr<Received>& input);
  void add_loss(StorageId per_token, Flight& flight);
  void scale_auxiliary_loss();
  StorageId backward_of_loss(Flight& flight, StorageId& loss);
  void micro_step(std::uint16_t number);
  void run_forward(std::int64_t chunk, std::shared_ptr<Received> input);
  void send_output(bool loss);
  void name_gradient(StorageId received);
  void run_backward(std::int64_t chunk, StorageId gradient);
  [[nodiscard]] std::vector<PipelineAction> actions() const;
  void run_one_by_one();
  void run_interleaved();
  void receive_next(const PipelineAction* forward, const PipelineAction* backward);
  void end_pipeline();
  void finish_gradients();

  const Job& job_;
  const TrainingSpec& training_;
  const ForwardOrder& order_;
  Engine& engine_;
  MegatronStates& states_;
  Recorder& recorder_;
  std::optional<LaunchDevice> device_;
  std::int64_t seq_len_;  // of a rank
  PipelinePlace place_;
  std::int64_t stream_bytes_ = 0;                        ///< of what stages send each other
  StorageId mask_ = kNoStorage;                          // of attention, for all micro-steps
  std::vector<std::shared_ptr<Received>> model_inputs_;  // by chunk: set_input_tensor holds them
  std::vector<StorageId> tokens_;  // by chunk: what its data iterator made last
  std::vector<StorageId> losses_;  // of the step
  bool has_auxiliary_scale_ = false;
  std::deque<Flight> flights_;
  // By chunk, of an interleaved schedule: what was received and waits.
  std::vector<std::deque<std::shared_ptr<Received>>> inputs_;
  std::vector<std::deque<StorageId>> gradients_;
  // Names of the schedule's function.
  std::shared_ptr<Output> output_;
  StorageId gradient_ = kNoStorage;   // that was received last
  StorageId sent_back_ = kNoStorage;  // of the input whose backward ran last
};

}  // namespace memest
