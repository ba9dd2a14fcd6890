// Storages that a process keeps whatever micro-step runs: buffers of libraries, and attributes of
// the model's modules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "memory/engine/checkpoints.hpp"
#include "memory/engine/flight_state.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/states/overheads.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// The program's thread, or the autograd engine's: cuBLAS has handles, and workspaces, by thread.
enum class EngineThread : std::uint8_t { program, autograd };

/// Buffers that libraries make when a kernel first asks for them.
class LibraryBuffers {
 public:
  LibraryBuffers(const WorkspaceSizes& sizes, Recorder& recorder)
      : sizes_(sizes), recorder_(recorder) {}

  void use(Workspace workspace, EngineThread thread);
  /// The program goes on in another stream, in which handles have workspaces of their own.
  void change_stream() { made_ = {}; }
  /// Megatron's global memory buffer has at least so many bytes from here on.
  void grow(std::int64_t bytes);
  /// Transformer Engine's gradient of a weight that nobody reads: the process keeps one by shape.
  void make_unread(const UnreadGradient& gradient);

 private:
  void use(LoopTensor workspace, std::int64_t bytes, EngineThread thread);
  void use_once(LoopTensor workspace, std::int64_t bytes);

  WorkspaceSizes sizes_;
  Recorder& recorder_;
  std::array<std::array<bool, 2>, 2> made_{};  // workspaces, by thread and library
  bool has_transformer_engine_ = false;
  HeldStorage growing_;
  std::int64_t growing_bytes_ = 0;
  std::vector<std::vector<std::int64_t>> unread_;  // shapes
};

/// Attributes of modules that name what a forward made, until the next forward names its own; and
/// the leaves at which their autograd graphs begin.
class ModuleAttributes {
 public:
  ModuleAttributes(const ForwardOrder& order, const Checkpoints& checkpoints, Recorder& recorder);

  /// The op at `site` has run, and these of its `attributes` are named; `owner`: of the running
  /// stage's input.
  void name(const OpSite& site, Slice attributes, const FlightState& state,
            const std::shared_ptr<void>& owner);
  /// The graph of what a checkpoint recomputed begins with its inputs, detached, which keep their
  /// gradients: `gradient` and `input`.
  void keep_leaves(std::size_t checkpoint, StorageId gradient, StorageId input);

 private:
  struct GraphInput {
    OpSite last;  ///< of a stage or of a checkpoint: whose attribute has such a graph
    std::optional<std::size_t> checkpoint;
    std::shared_ptr<void> owner;  ///< of a stage's input
    HeldVector leaves;            ///< a checkpoint's input, its gradient first
  };
  void add_graph_input(const Checkpoints& checkpoints, Slice sites,
                       std::optional<std::size_t> checkpoint);
  void begin_graph(const OpSite& site, const std::shared_ptr<void>& owner);

  const ForwardOrder& order_;
  Recorder& recorder_;
  std::vector<std::pair<Cell, HeldStorage>> named_;
  std::vector<GraphInput> graph_inputs_;
};

}  // namespace memest
