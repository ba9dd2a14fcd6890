// A block compiled for running: every size evaluated once, every list flat, so that equal layers
// cost no more than their events.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/graph/kernel_scratch.hpp"
#include "memest/graph/unpacked.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {

/// [begin, end) of one of a program's lists.
struct Slice {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// A storage that a forward makes.
struct MadeStorage {
  TensorId tensor = 0;
  std::int64_t bytes = 0;
  Holding holding = Holding::activations;
  std::uint8_t held = 1;  ///< references of the running program
  bool for_backward = false;
  bool for_dropout = false;
  bool answered = false;  ///< held by what the model answers
  bool held_by_graph = false;
};

/// A storage that a backward makes.
struct MadeGradient {
  TensorId like = 0;  ///< or kKernelScratch
  std::int64_t bytes = 0;
  Holding holding = Holding::temporaries;
};

/// A gradient on its way to the op that made `input`.
struct HandedGradient {
  TensorId input = 0;
  std::uint8_t tensor = InputGradient::kHandedOn;
  Reach reach = Reach::directly;
  bool last = true;  ///< no later gradient of the op is the same storage
  bool to_parameter = false;
  std::int64_t sum_bytes = 0;  ///< of the sum where it cannot be added in place
};

/// A Step of an op, or of the kernels that it launches: as many of these as the sizes ask for.
struct ProgramStep {
  StepKind kind = StepKind::allocate;
  /// Counted from OpProgram::gradients, ::scratch or ::saved on; of a forward's launch,
  /// BlockProgram::launched.
  std::uint32_t tensor = 0;
  bool kept_selectively = false;  ///< see Op::keeps_selectively
  bool stays = false;  ///< makes what a selective checkpoint keeps, and the op drops behind it
};

/// By its shape the process keeps one.
struct UnreadGradient {
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;
};

/// A saved tensor that waits on the host: what its node's unpack hook makes.
struct PackedTensor {
  TensorId tensor = 0;
  std::int64_t bytes = 0;
  Lying lying = Lying::by_rows;
  bool made_by_op = false;
};

struct OpProgram {
  Slice scratch;     ///< of `made`
  Slice made;        ///< outputs that own their storage
  Slice course;      ///< of `steps`: see Op::forward_steps
  Slice launches;    ///< of `launches`, after the outputs are made
  Slice outputs;     ///< of `tensors`: all outputs, views too
  Slice kept;        ///< of `tensors`: what a selective checkpoint keeps
  Slice saved;       ///< of `tensors`: distinct storages, without parameters
  Slice listed;      ///< of `tensors`: those of `saved` that Transformer Engine's offload takes
  Slice unlisted;    ///< and the others
  Slice packed;      ///< of `packed`: all that it saves, in the order in which it is unpacked
  Slice released;    ///< of `tensors`: storages
  Slice named;       ///< of `tensors`: storages that its node names, see Op::named_by_node,
                     ///< without parameters
  Slice attributes;  ///< of `tensors`: storages that a module holds until its next forward
  std::uint32_t attributes_by_graph = 0;  ///< from there on those that a graph names
  Slice gradients;                        ///< of `made_gradients`, what `steps` count from
  std::uint32_t launched = 0;  ///< of `gradients`: from here on scratch that kernels ask for
  Slice steps;
  std::uint32_t reductions = 0;  ///< of `steps`: from here on the engine sums gradients of
                                 ///< broadcast inputs, after the node's own formula
  std::uint32_t waiting = 0;     ///< of `steps`: see Op::waiting_steps
  Slice made_when_recomputed;    ///< of `made_gradients`: see Op::made_when_recomputed
  Slice handed;
  Workspace workspace = Workspace::none;
  std::uint32_t product = 0;               ///< of `steps`: after this one the first product runs
  std::int64_t forward_buffer = 0;         ///< asked of the growing buffer
  std::int64_t backward_buffer = 0;        ///< the same of the backward
  std::optional<UnreadGradient> unread;    ///< see Op::adds_to_buffer
  std::optional<TensorId> adds_to_buffer;  ///< see Op
  bool names_graph = false;                ///< the first of `attributes` leads back to the inputs
  bool once = false;                       ///< runs in the first forward alone
  bool by_caller = false;                  ///< see Op
  bool trains = false;                     ///< has a backward
  bool keeps = false;                      ///< its node saves something, be it a parameter
  bool keeps_result = false;      ///< the last thing saved exists only after the op has run
  bool hands_on = false;          ///< an output's gradient goes on to an input
  bool hands_kept = false;        ///< so does, written in place, the first tensor that is saved
  bool kept_selectively = false;  ///< see Op
  bool casts = false;             ///< makes autocast's copy of `parameter`
  bool saves_scale = false;       ///< of `parameter`, a weight gathered in fp8
  bool names_weight = false;      ///< its node names `parameter`
  bool looks_up = false;          ///< a table's rows by ids
  bool ends_autocast = false;     ///< see Op
  bool casts_answer = false;      ///< it is a wrapper's, of what the model answers
  bool drops = false;             ///< dropout: an evaluation hands `dropped` on instead
  TensorId dropped = 0;
  TensorId parameter = 0;
};

struct BlockProgram {
  std::vector<std::int64_t> elements;  ///< of every tensor
  std::vector<OpProgram> ops;
  std::vector<MadeStorage> made;
  std::vector<ScratchStep> launches;
  std::vector<Slice> launched;  ///< of `launches`: those of one kernel
  std::vector<TensorId> tensors;
  std::vector<PackedTensor> packed;
  std::vector<MadeGradient> made_gradients;
  std::vector<ProgramStep> steps;
  std::vector<HandedGradient> handed;
  TensorId output = 0;
  /// Those of `ops` from the first to the last that exchanges something between expert ranks.
  Slice experts;
};

/// `device` decides what kernels ask for beside their tensors; nothing where it is not known.
BlockProgram compile(const Block& block, const Bindings& sizes,
                     const std::optional<LaunchDevice>& device);

}  // namespace memest
