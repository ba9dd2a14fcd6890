// torch.distributed.pipelining of PyTorch 2.11 as torchtitan runs it: a rank's stages, what they
// receive, and the order of a step's micro-batches.
//
//   first step   Every stage runs forward once on zeros, without gradients, to learn its shapes;
//                then it has a buffer for what it receives of each micro-batch, in both passes.
//   forward      A stage's output lives until its backward has run, the logits too; those of a
//                forward that DualPipeV overlaps with a backward to the next step.
//   backward     Whole gradients are summed up (ShardedUnits); a stage's last backward reduces
//   them.
//
// A schedule repeats itself between its beginning and its end: of many micro-batches a few for
// every rank are followed, and what one of them leaves alive stands there for each of the others.
//
// Source: torch/distributed/pipelining/stage.py, schedules.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memory/engine/engine.hpp"
#include "memory/loop/stand_ins.hpp"
#include "memory/sharding/sharded_units.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class PipelineStages {
 public:
  struct Parts {
    const Job& job;
    std::int64_t rank = 0;  ///< of the job's pipeline
    Engine& engine;
    ShardedUnits* units = nullptr;  ///< null: nothing is sharded
    Recorder& recorder;
  };
  explicit PipelineStages(const Parts& parts);

  /// A step's micro-batches, whose ids and labels the caller holds. Answers the losses, which are
  /// the caller's; none where another rank has the head.
  HeldVector run(StorageId inputs, StorageId labels);

 private:
  /// A micro-batch between its forward and its backward in one stage.
  struct Flight {
    std::size_t stage = 0;
    std::int64_t micro_batch = 0;
    HeldStorage answer;
    HeldStorage loss_gradient;  ///< while the backward of the last stage runs
    FlightState state;
    std::vector<StorageId> kept;  ///< between the parts of its backward
  };
  /// By micro-batch: what comes from the stage before, and from the one behind.
  struct Buffers {
    std::vector<HeldStorage> inputs;
    std::vector<HeldStorage> gradients;
  };

  [[nodiscard]] std::int64_t index_of(std::size_t stage) const;
  [[nodiscard]] bool is_first(std::size_t stage) const;
  [[nodiscard]] bool is_last(std::size_t stage) const;
  /// Whether the next stage is this rank's too, and whether the one before is: at the tip of a V.
  [[nodiscard]] bool hands_on_here(std::size_t stage) const;
  [[nodiscard]] bool is_handed_here(std::size_t stage) const;
  [[nodiscard]] bool is_interleaved() const { return place_.chunks > 1; }
  HeldStorage make(std::int64_t bytes, Holding holding, LoopTensor tensor);
  void initialize();
  void learn_shapes(std::size_t stage);
  std::vector<HeldStorage> receive_buffers();
  void gather_ahead(const std::vector<PipelineAction>& actions, std::size_t from);
  void forward(const PipelineAction& action);
  void save_output(const Flight& flight);
  [[nodiscard]] std::deque<Flight>::iterator flight_of(const PipelineAction& action);
  HeldStorage& gradient_buffer(const Flight& flight);
  HeldStorage gradient_for(Flight& flight);
  void backward(const PipelineAction& action);
  void backward_inputs(const PipelineAction& action);
  void backward_weights(const PipelineAction& action);
  void send_back(HeldStorage gradient);
  void act(const PipelineAction& action);
  [[nodiscard]] bool is_received(StorageId storage) const;
  void stand_in_for_others();
  void reduce(std::size_t stage);

  const Job& job_;
  Engine& engine_;
  ShardedUnits* units_;
  Recorder& recorder_;
  PipelinePlace place_;
  std::int64_t micro_batches_;
  std::int64_t followed_;  ///< of them, one by one
  StandIns others_;
  std::int64_t stream_bytes_ = 0;  ///< of what stages send each other
  std::int64_t ids_bytes_ = 0;     ///< of a micro-batch
  std::vector<Buffers> buffers_;   // by stage; empty before the first step
  std::vector<bool> gathered_;     // stages, as the schedule sees them
  std::deque<Flight> flights_;
  std::vector<SplitBackward> splits_;  // by stage; none where no backward has two parts
  HeldVector input_gradients_;         // that a first part's inputs hold until the next step
  HeldVector output_chunks_;           // logits that the last stage holds until then
  HeldVector losses_;
  StorageId inputs_ = kNoStorage;
  StorageId labels_ = kNoStorage;
  // Names of the schedule's function; the interleaved one has none.
  HeldStorage output_;   // of the last forward
  HeldStorage sending_;  // the last gradient that went back
};

}  // namespace memest
