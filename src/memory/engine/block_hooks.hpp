// Hooks that a wrapper around the model's blocks runs before and after each, in both passes.
#pragma once

#include <cstdint>

#include "memest/memory/timeline.hpp"
#include "memory/engine/parameter_group.hpp"

namespace memest {

class OptimizerRun;
struct OpSite;

class BlockHooks {
 public:
  BlockHooks() = default;
  BlockHooks(const BlockHooks&) = delete;
  BlockHooks(BlockHooks&&) = delete;
  BlockHooks& operator=(const BlockHooks&) = delete;
  BlockHooks& operator=(BlockHooks&&) = delete;
  virtual ~BlockHooks() = default;

  /// `instance` counts ForwardOrder::instances().
  virtual void before_forward(std::uint32_t instance) = 0;
  virtual void after_forward(std::uint32_t instance) = 0;
  /// An op is about to run, or has run, in the forward or in a checkpoint's second one; the one
  /// with whose first saved tensor a checkpoint stops does not come to its end.
  virtual void before_op(const OpSite& /*site*/) {}
  virtual void after_op(const OpSite& /*site*/) {}
  /// The op's node is about to run, the gradient of what it answers is there; or it has handed its
  /// gradients on.
  virtual void before_node(const OpSite& /*site*/) {}
  virtual void after_node(const OpSite& /*site*/) {}
  /// A checkpoint's second forward saves what the op reads as tensors of their own, which hold the
  /// gathered weights among it until its node lets go of them.
  virtual void save_again(const OpSite& /*site*/) {}
  virtual void drop_saved_again(const OpSite& /*site*/) {}
  /// The block's operation that looks up a table has run.
  virtual void after_look_up(std::uint32_t /*instance*/) {}
  /// The op with which the model answers is about to run, and casts what it answers; or it has run,
  /// and the program goes on.
  virtual void before_answer_cast() {}
  virtual void after_answer() {}
  /// The loss as the wrapper answers it in place of the model's; kNoStorage: it is the model's.
  [[nodiscard]] virtual StorageId take_loss() { return kNoStorage; }
  /// Whether the wrapper answers copies of what the model does.
  [[nodiscard]] virtual bool copies_answers() const { return false; }
  /// The gradient of what the block answers is there.
  virtual void before_backward(std::uint32_t instance) = 0;
  /// Its last node has run.
  virtual void after_backward(std::uint32_t instance) = 0;
  /// A node begins that adds the gradient of ForwardOrder::parameters()[use] to a buffer by itself.
  virtual void write_gradient(std::uint32_t /*use*/) {}
  /// `gradient`, of ForwardOrder::parameters()[use], is complete. True: its reference is the
  /// wrapper's from here on.
  virtual bool take_gradient(std::uint32_t use, StorageId gradient) = 0;
  /// Whether the parameter has a gradient in the type in which it arrives, to which another is
  /// added in place.
  [[nodiscard]] virtual bool has_gradient(std::uint32_t /*use*/) const { return false; }
  /// The scale that the parameter has now: a weight gathered in fp8 has one, which a node that
  /// saves the weight keeps. kNoStorage: none.
  [[nodiscard]] virtual StorageId scale_of(std::uint32_t /*use*/) const { return kNoStorage; }
  /// Memory into which the parameter is gathered for the module that runs, which a node that names
  /// the parameter holds. kNoStorage: none that goes with its names.
  [[nodiscard]] virtual StorageId gathered(std::uint32_t /*use*/) const { return kNoStorage; }
  /// Whether the backwards from here on leave their gradients whole, to be added up and reduced in
  /// a later one.
  virtual void hold_gradients(bool /*held*/) {}
  /// The engine has run its last node.
  virtual void end_backward() = 0;
  /// The optimizer's step begins: what the wrapper makes of the gradients for it.
  virtual void hand_over(OptimizerRun&) {}
  /// The tensors that the optimizer steps, where those are not the parameters themselves.
  [[nodiscard]] virtual ParameterGroup stepped() { return {}; }
  /// zero_grad(set_to_none=True).
  virtual void drop_gradients() = 0;
};

}  // namespace memest
