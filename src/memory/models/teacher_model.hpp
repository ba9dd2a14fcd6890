// A teacher or a reference: a frozen model, beside the one that is trained.
#pragma once

#include <optional>

#include "memest/spec/job.hpp"
#include "memory/engine/engine.hpp"
#include "memory/models/graph_part.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// Gives the weights and buffers of what stands beside the trained model their place: a teacher's
/// or a reference's by Module.to(), those of a moving average as its copy (AveragedModel).
void place_second_models(const Graph& graph, const Job& job, Recorder& recorder);

class TeacherModel {
 public:
  /// All outlive the model; `timeline` is the recorder's. The teacher uses the process's buffers of
  /// `settings`, and the sizes of its workspaces.
  struct Parts {
    const Graph& graph;
    const EngineSettings& settings;
    std::optional<LaunchDevice> device;
    BlockHooks* wrapper = nullptr;  ///< around the teacher; null where there is none
    Timeline& timeline;
    Recorder& recorder;
  };
  explicit TeacherModel(const Parts& parts);

  struct Answer {
    HeldStorage result;  ///< logits, or log-probabilities of tokens
    HeldVector others;   ///< what it answers beside them
  };
  Answer forward(StorageId batch);

 private:
  GraphPart part_;
  ForwardOrder order_;
  Recorder& recorder_;
  Engine engine_;
};

}  // namespace memest
