// nanotron's train_batch_iter and the optimizer's step around it: micro-batches one behind the
// other, or in the order of a pipeline (parallel/pipeline_parallel/engine.py), many in flight. A
// backward's gradients are added to the accumulator's when it has ended, and go.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memory/accumulator/nanotron_states.hpp"
#include "memory/engine/engine.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class NanotronLoop {
 public:
  struct Parts {
    const Job& job;
    std::int64_t rank = 0;  ///< of the job's pipeline
    const ForwardOrder& order;
    Engine& engine;
    NanotronStates& states;
    Recorder& recorder;
  };
  explicit NanotronLoop(const Parts& parts);

  void step(std::uint16_t number);

 private:
  /// The tensors of a micro-batch that the first stage reads, and the last one.
  struct Batch {
    HeldStorage ids;
    HeldStorage mask;
    HeldStorage labels;
    HeldStorage label_mask;
  };
  /// A micro-batch between its forward and its backward.
  struct Flight {
    HeldStorage input;       ///< that another stage has sent
    HeldStorage label_mask;  ///< of the losses that count
    HeldStorage counted;     ///< how many they are
    HeldStorage loss;        ///< divided by the micro-batches
    FlightState state;
  };

  HeldStorage make(std::int64_t bytes, Holding holding, LoopTensor tensor);
  HeldStorage scalar(LoopTensor tensor);
  [[nodiscard]] bool is_first() const { return place_.rank == 0; }
  [[nodiscard]] bool is_last() const { return place_.rank == place_.ranks - 1; }
  void load();
  void forward();
  void take_loss(Flight& flight, HeldStorage per_token);
  void backward(bool last);
  StorageId backward_of_loss(Flight& flight);
  void run_pipeline();
  void report_loss();

  const Job& job_;
  const TrainingSpec& training_;
  const ForwardOrder& order_;
  Engine& engine_;
  NanotronStates& states_;
  Recorder& recorder_;
  PipelinePlace place_;
  std::int64_t tokens_ = 0;        // of a micro-batch
  std::int64_t stream_bytes_ = 0;  // of what stages send each other
  Batch batch_;                    // the name `micro_batch`
  std::deque<Flight> flights_;
  HeldVector losses_;      // of the step
  HeldStorage sent_;       // that waits to be sent on
  HeldStorage sent_back_;  // that waits to be sent back
};

}  // namespace memest
