// Eager PyTorch at work on one micro-step: the forward op by op, and the autograd engine's
// backward.
//
//   forward   An op makes its outputs. Its saved tensors stay until its node has run; the
//             program's own references end where the graph says.
//   backward  Nodes run in reverse order of creation. A node makes what its formula makes, its
//             incoming gradients and saved tensors go, and its gradients are put where the nodes
//             before it wait for them: added where one waits already, in place if nothing else
//             holds it. A parameter's gradient is complete when every use has added its share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/spec/framework.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/checkpoints.hpp"
#include "memory/engine/flight_state.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// Bytes of the libraries' workspaces.
struct WorkspaceSizes {
  std::int64_t cublas = 0;
  std::int64_t cublas_lt = 0;
  std::int64_t transformer_engine = 0;
};

struct EngineSettings {
  Recompute recompute;
  CheckpointRule checkpoints = CheckpointRule::torch;
  WorkspaceSizes workspaces;
  std::int64_t gradient_bytes = 0;  ///< of an element of a finished gradient; 0: as it arrives
  bool gradients = true;            ///< false: under torch.no_grad
  bool loss_outside = false;    ///< the program takes the loss: its forward ends with the logits
  BlockHooks* hooks = nullptr;  ///< around every block
  /// In which a parameter's gradients are summed: that of the view that it is.
  Stream parameter_sums = Stream::compute;
  /// Finished gradients are added to a buffer that is there already, and go (Megatron's DDP).
  bool adds_to_buffers = false;
  /// Checkpoints are Megatron's, over so many tensor-parallel ranks; 0: torch.utils.checkpoint's.
  std::int64_t megatron_ranks = 0;
};

/// A stage's backward in two parts.
struct SplitBackward {
  /// A parameter's gradient, in the order in which the second part makes them.
  struct Group {
    std::uint32_t site = 0;   ///< of ForwardOrder::sites()
    std::uint32_t use = 0;    ///< of ForwardOrder::parameters()
    std::uint8_t tensor = 0;  ///< of those that the op's backward makes
  };
  std::vector<Group> groups;
  /// Sites whose nodes end with the first part, or with each of the groups.
  std::vector<std::vector<std::uint32_t>> ending;
};

class Engine {
 public:
  Engine(const Graph& graph, const ForwardOrder& order, const EngineSettings& settings,
         Recorder& recorder);

  /// The model's forward over `batch`, and `labels` where they are a tensor of their own. The loss
  /// and the logits stay held by the caller: see loss() and logits().
  void forward(StorageId batch, StorageId labels = kNoStorage);
  /// As forward(), of model.eval() under torch.no_grad().
  void evaluate(StorageId batch, StorageId labels);
  /// Hands blocks `storage` under `name` from here on, where any reads it.
  void bring(std::string_view name, StorageId storage);
  /// One stage of a pipeline's rank over `input`, which the caller holds: the model's forward.
  /// Its result stays held by the caller.
  /// Attributes of its modules that have a graph hold `owner`, the input's, as long as they last.
  StorageId forward_stage(std::size_t stage, StorageId input,
                          const std::shared_ptr<void>& owner = nullptr);
  /// The loss of what the last stage answered, where the program takes it.
  StorageId take_loss();
  /// As forward_stage(), under torch.no_grad().
  StorageId evaluate_stage(std::size_t stage, StorageId input);
  /// The backward of a stage from its result's gradient, of which the caller gives up one
  /// reference. Answers the gradient of its input.
  StorageId backward_stage(std::size_t stage, StorageId gradient);
  /// `uses`: the stage's parameters as its modules register them.
  [[nodiscard]] SplitBackward plan_split(std::size_t stage,
                                         const std::vector<std::uint32_t>& uses) const;
  /// The first part of backward_stage(): no parameter's gradient is made. `kept` is for the second.
  StorageId backward_inputs(const SplitBackward& plan, std::size_t stage, StorageId gradient,
                            std::vector<StorageId>& kept);
  void backward_weights(const SplitBackward& plan, std::vector<StorageId>& kept);
  /// Sets the running micro-step aside and takes up `other`.
  void exchange(FlightState& other) { std::swap(now_, other); }
  /// Returns the state of a micro-step that begins.
  [[nodiscard]] FlightState fresh() const;
  /// Closes the autocast context of the forward.
  void end_autocast();
  [[nodiscard]] StorageId loss() const { return now_.storages[order_.loss_cell()]; }
  [[nodiscard]] StorageId logits() const { return now_.storages[order_.logits_cell()]; }
  /// Returns the model's outputs beside them, each with one reference: its key-value cache.
  [[nodiscard]] std::vector<StorageId> take_answered() { return std::exchange(answered_, {}); }

  /// The backward, from the loss's gradient, of which the caller gives up one reference.
  void backward(StorageId loss_gradient);

  /// The gradient of each of ForwardOrder::parameters(), kNoStorage where there is none.
  [[nodiscard]] StorageId gradient(std::size_t parameter) const {
    return parameters_[parameter].gradient;
  }
  /// Returns the storages that live as long as the loss: the arguments of reentrant checkpoints
  /// beside the blocks' inputs, and leaves that are no parameters with their gradients.
  [[nodiscard]] std::vector<StorageId> take_kept_with_loss() {
    return std::exchange(now_.kept_with_loss, {});
  }

  /// The loss in the type of the wrapper's answers, if that is another: the caller's.
  [[nodiscard]] StorageId take_wrapped_loss() const {
    return settings_.hooks == nullptr ? kNoStorage : settings_.hooks->take_loss();
  }
  /// no_sync() begins or ends.
  void hold_gradients(bool held) const {
    if (settings_.hooks != nullptr) settings_.hooks->hold_gradients(held);
  }
  /// The optimizer's step begins.
  void hand_over(OptimizerRun& optimizer) const {
    if (settings_.hooks != nullptr) settings_.hooks->hand_over(optimizer);
  }
  /// zero_grad(set_to_none=True).
  void drop_gradients();

 private:
  enum class Thread : std::uint8_t { forward, autograd };
  enum class Mode : std::uint8_t {
    gradients,     ///< enabled, which saved-tensor hooks leave them
    no_gradients,  ///< in a reentrant checkpoint, or at all
    evaluation     ///< nor dropout
  };
  struct ParameterState {
    StorageId gradient = kNoStorage;
    StorageId cast = kNoStorage;  ///< in autocast's cache
    GradientSlot slot;
    std::int64_t arrived = 0;
  };

  // engine_stages.cpp
  void grow_buffer(std::int64_t bytes);
  void use_workspace_of_process();
  void make_unread(const UnreadGradient& gradient);
  void name_attributes(const OpSite& site, const OpProgram& op);
  void find_graph_inputs();
  void keep_graph_leaves(std::size_t checkpoint);
  [[nodiscard]] bool runs(const OpSite& site, const OpProgram& op);

  // engine_forward.cpp
  void run_sites(std::uint32_t begin, std::uint32_t end);
  void evaluate_site(const OpSite& site);
  [[nodiscard]] std::uint32_t end_of_model(const StageSites& stage) const;
  StorageId hand_over_answer(std::size_t stage);
  void begin_forward(StorageId batch, StorageId labels);
  void end_forward();
  void run_forward(const OpSite& site, bool saves);
  void hand_on(const OpSite& site, const OpProgram& op);
  void keep_leaves(const OpSite& site, const OpProgram& op);
  void make_outputs(const OpSite& site, const OpProgram& op, Mode mode);
  void follow_course(const OpSite& site, const OpProgram& op, Mode mode);
  void make_scratch(const OpSite& site, std::uint32_t index);
  void drop_scratch(const OpSite& site, std::uint32_t index);
  void make_output(const OpSite& site, const OpProgram& op, std::uint32_t index, Mode mode);
  void run_launches(const OpSite& site, Slice launches);
  void save(const OpSite& site, const OpProgram& op);
  void end_references(const OpSite& site, const OpProgram& op);
  StorageId use_cast(std::uint32_t parameter, std::int64_t bytes, const Label& label);
  void use_workspace(Workspace workspace);
  void use_workspace(LoopTensor workspace, std::int64_t bytes);
  [[nodiscard]] Label label_of(const OpSite& site, const MadeStorage& made) const;

  void hook_before_forward(const OpSite& site);
  void hook_after_forward(const OpSite& site);

  // engine_backward.cpp
  void run_sites_back(std::uint32_t begin, std::uint32_t end);
  void run_backward(const OpSite& site);
  GradientSlot take_incoming(const OpSite& site, const OpProgram& op);
  void run_steps(const OpSite& site, const OpProgram& op, Slice steps);
  void drop_early(const OpSite& site, const OpProgram& op, std::uint32_t place);
  void make_again(const OpSite& site, const OpProgram& op);
  void drop_saved(const OpSite& site, const OpProgram& op);
  /// `kept`: what the op saved first, where that becomes a gradient.
  void hand_gradients(const OpSite& site, const OpProgram& op, const GradientSlot& incoming,
                      StorageId kept);
  [[nodiscard]] StorageId first_saved(const OpSite& site, const OpProgram& op) const;
  /// The sum of two gradients that cannot be added in place.
  struct Sum {
    std::int64_t bytes = 0;
    Label label;
    Stream stream = Stream::compute;
  };
  void put(GradientSlot& slot, const GradientSlot& gradient, const Sum& sum);
  void accumulate(std::uint32_t parameter);
  StorageId in_gradient_type(std::uint32_t parameter, StorageId arrived);
  [[nodiscard]] Label label_of(const OpSite& site, const MadeGradient& made) const;
  [[nodiscard]] Label sum_label(const OpSite& site, const HandedGradient& handed) const;

  void hook_before_backward(const OpSite& site);
  void hook_after_backward(const OpSite& site);

  // engine_split.cpp
  void find_ends_of_split(const StageSites& sites, SplitBackward& plan) const;
  void end_nodes(const std::vector<std::uint32_t>& sites);
  [[nodiscard]] bool is_of_weights(const OpSite& site, const OpProgram& op,
                                   std::uint32_t tensor) const;
  void run_part(const OpSite& site, const OpProgram& op, bool weights);
  void run_inputs_part(const OpSite& site, const OpProgram& op, const GradientSlot& incoming);
  [[nodiscard]] StorageId adopt(std::uint32_t parameter, StorageId gradient);

  // engine_checkpoint.cpp
  void hold_inputs(const Checkpoint& checkpoint);
  void drop_inputs(std::size_t checkpoint);
  void recompute(const Checkpoint& checkpoint);
  void recompute_whole(const Checkpoint& checkpoint);
  void keep_selectively(const OpSite& site, const OpProgram& op);
  void make_or_take_outputs(const OpSite& site, const OpProgram& op, Mode mode);
  void end_references_of(const Checkpoint& checkpoint, std::uint32_t end);
  void backward_of(std::size_t checkpoint);
  void end_checkpoint();
  void backward_of_reentrant(std::size_t checkpoint);
  void cut_input(std::size_t checkpoint);
  void gather_input(std::size_t checkpoint);
  StorageId make_input(const Checkpoint& checkpoint, std::int64_t bytes);
  void copy_leaves();
  [[nodiscard]] bool is_leaf_of_checkpoint(Cell cell) const;

  const ForwardOrder& order_;
  EngineSettings settings_;
  Recorder& recorder_;
  Checkpoints checkpoints_;
  FlightState now_;  // of the running micro-step
  std::vector<ParameterState> parameters_;
  std::vector<std::uint32_t> cast_;  // parameters in autocast's cache
  std::vector<StorageId> answered_;
  std::vector<Cell> leaves_;  // no parameters, and a gradient ends at them: embeddings under peft
  std::vector<OpSite> ran_once_;
  std::vector<std::pair<Cell, StorageId>> attributes_;  // of modules, whatever micro-step runs
  /// The leaves at which the autograd graphs of a module's attributes begin.
  struct GraphInput {
    OpSite last;  ///< of a stage or of a checkpoint: whose attribute has such a graph
    std::optional<std::size_t> checkpoint;
    std::shared_ptr<void> owner;    ///< of a stage's input
    std::vector<StorageId> leaves;  ///< a checkpoint's input, its gradient first
  };
  std::vector<GraphInput> graph_inputs_;
  StorageId buffer_ = kNoStorage;  // that grows
  std::int64_t buffer_bytes_ = 0;
  bool has_process_workspace_ = false;
  std::vector<std::vector<std::int64_t>> unread_;  // shapes
  std::vector<StorageId> made_;                    // of the running backward node
  std::vector<StorageId> extra_incoming_;
  std::vector<StorageId> made_again_;
  std::vector<std::uint32_t> dropped_;               // of what the running node saved
  std::array<std::array<bool, 2>, 2> workspaces_{};  // by thread and library
  Thread thread_ = Thread::forward;
  Origin origin_ = Origin::forward;
  std::shared_ptr<void> input_owner_;  // of the running stage
  std::optional<std::size_t> ending_;  // the checkpoint whose last node runs
  struct CopiedLeaf {
    Cell cell = 0;
    Label label;
    std::int64_t bytes = 0;
  };
  std::vector<CopiedLeaf> copied_leaves_;   // of the running backward node
  const Checkpoint* detached_ = nullptr;    // whose inputs are leaves of a backward of its own
  const SplitBackward* split_ = nullptr;    // whose first part runs
  std::vector<StorageId>* kept_ = nullptr;  // by its group
  bool keeps_graph_ = false;                // of the running forward: no checkpoint recomputes it
  bool unpacks_ = false;  // saved tensors are recomputed: they end with their node's formula
};

}  // namespace memest
