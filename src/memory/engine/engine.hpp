// Eager PyTorch at work on one micro-step: the forward op by op, and the autograd engine's
// backward.
//
//   forward   An op makes its outputs. Its saved tensors stay until its node has run; the
//             program's own references end where the graph says (ForwardPass).
//   backward  Nodes run in reverse order of creation. A node makes what its formula makes, its
//             incoming gradients and saved tensors go, and its gradients are put where the nodes
//             before it wait for them: added where one waits already, in place if nothing else
//             holds it. A parameter's gradient is complete when every use has added its share
//             (BackwardPass).
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/engine/engine_state.hpp"
#include "memory/engine/split_backward.hpp"

namespace memest {

class Engine {
 public:
  Engine(const Graph& graph, const ForwardOrder& order, const EngineSettings& settings,
         Recorder& recorder)
      : state_(graph, order, settings, recorder) {}

  /// The model's forward over `batch`, and `labels` where they are a tensor of their own. The loss
  /// and the logits stay held by the caller: see loss() and logits().
  void forward(StorageId batch, StorageId labels = kNoStorage);
  /// As forward(), where the program takes the loss: the model alone, whose answer stays held by
  /// the caller. take_loss() follows.
  void forward_model(StorageId batch, StorageId labels);
  /// As forward(), of model.eval() under torch.no_grad(), beneath the wrapper.
  void evaluate(StorageId batch, StorageId labels);
  /// As above, with the wrapper, of all blocks but the last. Answers what that one would be given,
  /// with one reference.
  StorageId evaluate_to_last(StorageId batch, StorageId labels);
  /// Hands blocks `storage` under `name` from here on, where any reads it.
  void bind_input(std::string_view name, StorageId storage);
  /// Gives up a reference to `storage`, an input of the block's that its forward lets go.
  void hand_in(std::string_view name, StorageId storage);
  void hand_in(std::uint32_t instance, TensorId tensor, StorageId storage);
  /// One stage of a pipeline's rank over `input`, which the caller holds: the model's forward.
  /// Its result stays held by the caller.
  /// Attributes of its modules that have a graph hold `owner`, the input's, as long as they last.
  StorageId forward_stage(std::size_t stage, StorageId input,
                          const std::shared_ptr<void>& owner = nullptr);
  /// The first op of the loss alone, where something else runs before the others.
  void begin_loss();
  /// The loss of what the last stage answered, where the program takes it.
  StorageId take_loss();
  /// As forward_stage(), under torch.no_grad().
  StorageId evaluate_stage(std::size_t stage, StorageId input);

  /// The backward, from the loss's gradient, of which the caller gives up one reference.
  void backward(StorageId loss_gradient);
  /// The backward of a stage from its result's gradient, of which the caller gives up one
  /// reference. Answers the gradient of its input.
  StorageId backward_stage(std::size_t stage, StorageId gradient);
  /// As above, of the stage with the embeddings: answers what take_kept_with_loss() does.
  [[nodiscard]] std::vector<StorageId> backward_first_stage(std::size_t stage, StorageId gradient);
  /// The first part of backward_stage(): no parameter's gradient is made. `kept` is for the second.
  StorageId backward_inputs(const SplitBackward& plan, std::size_t stage, StorageId gradient,
                            std::vector<StorageId>& kept);
  void backward_weights(const SplitBackward& plan, std::vector<StorageId>& kept);

  /// Sets the running micro-step aside and takes up `other`.
  void exchange(FlightState& other) { std::swap(state_.now, other); }
  /// Returns the state of a micro-step that begins.
  [[nodiscard]] FlightState fresh() const { return fresh_flight(state_.order, state_.checkpoints); }
  /// Closes the autocast context of the forward.
  void end_autocast() { state_.autocast.clear(); }
  [[nodiscard]] const ForwardOrder& order() const { return state_.order; }
  [[nodiscard]] StorageId loss() const { return state_.now.storages[order().loss_cell()]; }
  [[nodiscard]] StorageId logits() const { return state_.now.storages[order().logits_cell()]; }
  /// Returns the model's outputs beside them, each with one reference: its key-value cache.
  [[nodiscard]] std::vector<Answered> take_answered() { return std::exchange(state_.answered, {}); }
  /// Returns the storages that live as long as the loss: the arguments of reentrant checkpoints
  /// beside the blocks' inputs, and leaves that are no parameters with their gradients.
  [[nodiscard]] std::vector<StorageId> take_kept_with_loss() {
    return std::exchange(state_.now.kept_with_loss, {});
  }

  /// The loss in the type of the wrapper's answers, if that is another: the caller's.
  [[nodiscard]] StorageId take_wrapped_loss() const {
    return hooks() == nullptr ? kNoStorage : hooks()->take_loss();
  }
  /// Whether the wrapper answers copies of what the model does.
  [[nodiscard]] bool copies_answers() const {
    return hooks() != nullptr && hooks()->copies_answers();
  }
  /// no_sync() begins or ends.
  void hold_gradients(bool held) const {
    if (hooks() != nullptr) hooks()->hold_gradients(held);
  }
  /// The optimizer's step begins.
  void hand_over(OptimizerRun& optimizer) const {
    if (hooks() != nullptr) hooks()->hand_over(optimizer);
  }
  /// The program goes on in another stream.
  void change_stream() { state_.buffers.change_stream(); }
  /// zero_grad(set_to_none=True).
  void drop_gradients();

 private:
  [[nodiscard]] BlockHooks* hooks() const { return state_.settings.hooks; }
  [[nodiscard]] Slice all_sites() const;
  void begin_forward(StorageId batch, StorageId labels);
  /// The model's outputs are the caller's from here on.
  void end_forward();
  /// The sites of a stage's model: before the loss where the program takes it.
  [[nodiscard]] Slice model_of(const StageSites& stage) const;
  StorageId hand_over_answer(std::size_t stage);
  StorageId take_gradient_of_input();

  EngineState state_;
  bool loss_begun_ = false;
};

}  // namespace memest
