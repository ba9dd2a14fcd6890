// The modules whose forwards a block's operations are, as hooks on torch.nn.Module see them:
// DeepSpeed's ZeRO 3 gathers weights module by module, and looks ahead at every call, be it of a
// module without weights of its own.
//
// transformers' decoders: the layer holds its norms, the attention with its projections, and the
// feed-forward with its own and its activation. The model holds the layers and the last norm, and
// stands in the one that has the head and the loss, peft's two models around that.
//
// peft's lora.Linear holds its base layer, a dropout (an Identity without one) and the two
// matrices, of which it reads the type of the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/graph/graph.hpp"

namespace memest {

struct ModuleCall {
  std::uint32_t begin = 0;  ///< the block's ops [begin, end) run within the module's forward
  std::uint32_t end = 0;
  std::vector<TensorId> parameters = {};  ///< its own, without those of modules inside it
  /// A module that several blocks run begins in the first and ends in the last of them, where its
  /// backward begins. transformers names their inputs, on which no hook hangs for the end of that.
  bool begins = true;
  bool ends = true;
  std::uint32_t around = 0;  ///< of those: how many stand around it
  /// Weights that it reads in its own forward, before this op, without calling the modules that
  /// have them.
  std::vector<TensorId> reads = {};
  std::uint32_t read_before = 0;
  std::uint32_t answers = 0;  ///< the op with whose node its backward begins
  bool has_backward = true;   ///< what it answers wants a gradient
  bool ends_backward = true;  ///< so does what it is given: a hook hangs there
};

/// Where the block stands among the others.
struct BlockPosition {
  bool first = false;   ///< of the model
  bool behind = false;  ///< the layers: the head, or the loss
  /// The module with the head reads weights in it without calling the modules that have them.
  bool reads_weights = false;
  std::uint32_t with_head = 0;        ///< how many modules stand around the one with the head
  bool answer_wants_gradient = true;  ///< the next block gives one to its input
};

/// The modules of the block; an outer one comes before those inside it.
std::vector<ModuleCall> module_calls(const Block& block, BlockPosition position);

/// A call where adapters are off, and its place among the calls of the block that has them.
struct PlainCall {
  ModuleCall call;
  std::size_t place = 0;
};
/// Those of `calls`, the modules of `adapted`, that run in `plain`, the same block with adapters
/// off: lora.Linear calls its base layer alone.
std::vector<PlainCall> calls_without_adapters(const Block& adapted,
                                              const std::vector<ModuleCall>& calls,
                                              const Block& plain);

}  // namespace memest
