// The state that passes of the autograd engine hand on to one another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/checkpoints.hpp"
#include "memory/engine/flight_state.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/engine/process_state.hpp"
#include "memory/timeline/layer_offload.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

struct EngineSettings {
  CheckpointPlan checkpoints;
  std::optional<SaveOnCpu> save_on_cpu = {};
  std::int64_t offloaded_layers = 0;  ///< see LayerOffload
  std::int64_t tensor_ranks = 1;      ///< that share what a plan of Megatron's distributes
  WorkspaceSizes workspaces;
  std::int64_t gradient_bytes = 0;  ///< of an element of a finished gradient; 0: as it arrives
  bool gradients = true;            ///< false: under torch.no_grad
  bool loss_outside = false;  ///< the program takes the loss: its forward ends with the logits
  bool loss_with_backward = false;  ///< it belongs to the backward's phase
  BlockHooks* hooks = nullptr;      ///< around every block
  /// In which a parameter's gradients are summed: that of the view that it is.
  Stream parameter_sums = Stream::compute;
  /// The process's buffers, where another engine has run in it; null: its own.
  std::shared_ptr<LibraryBuffers> buffers = nullptr;
  std::uint32_t first_place = 0;  ///< of its blocks among Timeline::places
  /// Finished gradients are added to a buffer that is there already, and go (Megatron's DDP).
  bool adds_to_buffers = false;
};

/// Autocast's copies of parameters (aten/src/ATen/autocast_mode.cpp, cached_cast): made at their
/// first use in an autocast context, and held by its cache until the context is left.
class AutocastCache {
 public:
  AutocastCache(std::size_t parameters, Recorder& recorder)
      : recorder_(recorder), casts_(parameters, kNoStorage) {}

  /// The copy of `parameter`, with a reference of the caller's.
  StorageId use(std::uint32_t parameter, std::int64_t bytes, const Label& label) {
    StorageId& cast = casts_[parameter];
    if (cast == kNoStorage) {
      cast = recorder_.allocate(bytes, label);
      used_.push_back(parameter);
    }
    recorder_.retain(cast);
    return cast;
  }
  /// The context is left.
  void clear() {
    for (const std::uint32_t parameter : used_) {
      recorder_.release(casts_[parameter]);
      casts_[parameter] = kNoStorage;
    }
    used_.clear();
  }

 private:
  Recorder& recorder_;
  std::vector<StorageId> casts_;     // by parameter
  std::vector<std::uint32_t> used_;  // parameters, as they were first used
};

/// A parameter's gradient, and the shares of it that have arrived.
struct ParameterGradient {
  StorageId storage = kNoStorage;
  GradientSlot slot;
  std::int64_t arrived = 0;
  StorageId saved_scale = kNoStorage;  ///< of a weight gathered in fp8 that a node has saved
};

/// A tensor that a model answers beside its result.
struct Answered {
  StorageId storage = kNoStorage;
  bool has_graph = false;
};

struct EngineState {
  EngineState(const Graph& graph, const ForwardOrder& forward_order,
              const EngineSettings& engine_settings, Recorder& events);
  EngineState(const EngineState&) = delete;
  EngineState(EngineState&&) = delete;
  EngineState& operator=(const EngineState&) = delete;
  EngineState& operator=(EngineState&&) = delete;
  ~EngineState() = default;

  const ForwardOrder& order;
  EngineSettings settings;
  Recorder& recorder;
  Checkpoints checkpoints;
  /// Gradients end at them, and they are no parameters: embeddings under peft.
  std::vector<Cell> leaves;
  FlightState now;                           ///< of the running micro-step
  std::vector<ParameterGradient> gradients;  ///< by ForwardOrder::parameters()
  AutocastCache autocast;
  std::optional<LayerOffload> offload = {};
  std::shared_ptr<LibraryBuffers> process_buffers;
  LibraryBuffers& buffers;
  ModuleAttributes attributes;
  std::vector<OpSite> ran_once;    ///< ops that run in the first forward alone, and have
  std::vector<Answered> answered;  ///< outputs beside logits and loss, each with a reference
};

/// The state of a micro-step that begins.
[[nodiscard]] FlightState fresh_flight(const ForwardOrder& order, const Checkpoints& checkpoints);

}  // namespace memest
