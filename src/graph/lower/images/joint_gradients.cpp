// Gradients that arrive as parts of a concatenation's.
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "graph/lower/images/images.hpp"

namespace memest {
namespace {

class JointGradients {
 public:
  explicit JointGradients(BlockBuilder& block) : ops_(block.ops()) {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (const TensorId id : ops_[i].inputs) ++at(id).readers;
      for (const TensorId id : ops_[i].outputs) at(id).maker = i;
    }
  }

  std::string_view copy() {
    for (const Op& op : ops_) {
      if (op.kind == OpKind::concatenate) follow_inputs(op);
    }
    return unknown_;
  }

 private:
  void follow_inputs(const Op& op) {
    for (const TensorId id : op.inputs) follow(id);
  }

  struct Use {
    std::size_t readers = 0;
    std::optional<std::size_t> maker = {};  ///< index into ops_
  };

  Use& at(TensorId id) {
    if (id >= uses_.size()) uses_.resize(id + std::size_t{1});
    return uses_[id];
  }

  /// The gradient of `id` is a part of a joint's where nothing else adds to it: a sum of two is a
  /// tensor of its own.
  void follow(TensorId id) {
    const Use use = at(id);
    if (use.readers > 1) return;
    if (!use.maker) {
      unknown_ =
          "the backward of a concatenation that alone reads what a block is given is not available "
          "yet; begin the block before the layer that makes it";
      return;
    }
    Op& maker = ops_[*use.maker];
    // AddBackward0 and CatBackward0 hand on what they are given, or a part of it.
    if (maker.kind == OpKind::add || maker.kind == OpKind::concatenate) return follow_inputs(maker);
    if (!maker.steps_of_part.empty()) maker.backward_steps = std::move(maker.steps_of_part);
    maker.steps_of_part.clear();
  }

  std::vector<Op>& ops_;
  std::vector<Use> uses_;  ///< by tensor
  std::string_view unknown_;
};

}  // namespace

std::string_view copy_joint_gradients(BlockBuilder& block) { return JointGradients(block).copy(); }

}  // namespace memest
