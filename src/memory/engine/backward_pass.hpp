// A backward pass of the autograd engine (torch/csrc/autograd/engine.cpp): nodes in reverse order
// of creation, whole or in two parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memory/engine/engine_state.hpp"
#include "memory/engine/split_backward.hpp"

namespace memest {

class BackwardPass {
 public:
  explicit BackwardPass(EngineState& engine)
      : engine_(engine), order_(engine.order), recorder_(engine.recorder), now_(engine.now) {}
  /// The first part of a backward in two: no parameter's gradient is made. `kept`: by group, what
  /// the second part begins from.
  BackwardPass(EngineState& engine, const SplitBackward& split, std::vector<StorageId>& kept)
      : BackwardPass(engine) {
    split_ = &split;
    kept_ = &kept;
  }

  /// Ops [begin, end) of ForwardOrder::sites(), the last first.
  void run(Slice sites);
  /// The second part.
  void run_weights(const SplitBackward& split, std::vector<StorageId>& kept);
  /// The nodes of `sites` have run in both parts.
  void end_nodes(const std::vector<std::uint32_t>& sites);

 private:
  struct CopiedLeaf {
    Cell cell = 0;
    Label label;
    std::int64_t bytes = 0;
  };
  /// The node that runs. Its lists keep their memory from node to node.
  struct Node {
    const OpSite* site = nullptr;
    const OpProgram* op = nullptr;
    const BlockProgram* program = nullptr;
    bool recomputed = false;               ///< what it saved: it ends with the node's own formula
    bool unpacks = false;                  ///< so it does where it waits on the host
    std::optional<std::size_t> ends;       ///< the checkpoint whose last node it is
    const Checkpoint* detached = nullptr;  ///< whose inputs are leaves of a backward of its own
    GradientSlot incoming;
    std::vector<StorageId> extra_incoming;
    std::vector<StorageId> made;  ///< by BackwardTensor, and launches' scratch behind
    std::vector<StorageId> made_when_recomputed;
    std::vector<StorageId> unpacked;  ///< what the node saved on the host
    std::vector<TensorId> dropped;    ///< of what the node saved
    std::vector<CopiedLeaf> copied_leaves;
  };
  /// The sum of two gradients that cannot be added in place.
  struct Sum {
    std::int64_t bytes = 0;
    Label label;
    Stream stream = Stream::compute;
  };

  [[nodiscard]] StorageId gradient_of_logits() const;
  void hook_before(const OpSite& site);
  void hook_after(const OpSite& site) const;
  void take_up(Node& node, const OpSite& site) const;
  void run_node(Node& node, const OpSite& site);
  void run_formula(Node& node);
  void take_incoming(Node& node);
  void drop_incoming(Node& node);
  void make_when_recomputed(Node& node);
  void unpack(Node& node);
  void run_steps(Node& node, Slice steps);
  void use_workspace(const Node& node, std::uint32_t step);
  [[nodiscard]] Slice held_by(const Node& node) const;
  void drop_saved(Node& node);
  void drop_early(Node& node, std::uint32_t place);
  [[nodiscard]] StorageId first_saved(const Node& node) const;
  /// `kept`: what the op saved first, where that becomes a gradient.
  void hand_gradients(Node& node, StorageId kept);
  void put(GradientSlot& slot, const GradientSlot& gradient, const Sum& sum);
  /// `index` into ForwardOrder::parameters().
  void accumulate(std::uint32_t index);
  StorageId in_gradient_type(std::uint32_t index, StorageId arrived);
  [[nodiscard]] static Label label_of(const OpSite& site, const MadeGradient& made);
  [[nodiscard]] static Label sum_label(const OpSite& site, const HandedGradient& handed);

  // recompute.cpp
  void run_checkpoint(Node& node, std::size_t checkpoint);
  void run_reentrant(Node& node, std::size_t checkpoint);
  void drop_selected(const Checkpoint& checkpoint);
  void drop_inputs(std::size_t checkpoint);
  [[nodiscard]] StorageId& input_of(std::size_t checkpoint);
  void end_checkpoint(Node& node);
  void make_again(std::uint32_t site);
  void run_remade(Node& node, std::size_t part);
  void copy_leaves(Node& node);
  [[nodiscard]] static bool is_leaf(const Node& node, Cell cell);

  // split_backward.cpp
  void run_inputs_part(Node& node);
  void run_part(Node& node, BackwardPart part);
  StorageId copy_of(const OpSite& site, StorageId gradient);
  [[nodiscard]] static bool is_of_weights(const Node& node, std::uint32_t tensor);
  [[nodiscard]] StorageId adopt(std::uint32_t parameter, StorageId gradient);

  EngineState& engine_;
  const ForwardOrder& order_;
  Recorder& recorder_;
  FlightState& now_;
  const SplitBackward* split_ = nullptr;
  std::vector<StorageId>* kept_ = nullptr;
  std::vector<std::uint32_t> finished_;  ///< parameters whose gradients a compiled model holds
};

}  // namespace memest
