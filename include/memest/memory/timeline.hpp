// The timeline: every allocation and free of N training steps, or of a few prompts answered, in the
// order in which eager PyTorch 2.11 and its autograd engine make them. It knows no addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/part_stream.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// Index into Timeline::storages.
using StorageId = std::uint32_t;
inline constexpr StorageId kNoStorage = 0xFFFF'FFFF;

enum class Phase : std::uint8_t {
  model,        ///< weights and buffers, and what an optimizer makes in its constructor
  ddp_buffers,  ///< Megatron's flat buffers of weights and gradients
  main_params,  ///< its optimizer's own copies of the weights
  batch,        ///< the micro-batch goes to the device
  forward,
  decode,  ///< generate() behind the forward of its prompts
  backward,
  clip,
  optimizer,
  zero_grad
};
/// "model", "batch", "forward", ...
std::string_view name_of(Phase phase);

/// The part that a storage plays in the ledger.
enum class Holding : std::uint8_t {
  weights,
  buffers,
  gradients,  ///< of parameters, from the moment a backward makes them
  optimizer_states,
  batch,
  activations,
  cast_weights,        ///< autocast's copies
  passing_gradients,   ///< of activations and casts, on their way to the op that made them
  temporaries,         ///< gone before their op, the clipping or the optimizer's step ends
  gathered_weights,    ///< of a unit that is sharded over the ranks, while it runs
  collective_buffers,  ///< what a collective reads or writes, and the program does not
  workspaces           ///< kept by libraries
};
/// "weights", "optimizer states", ...
std::string_view name_of(Holding holding);

/// The maker of a storage, which decides what the numbers of its label mean.
enum class Origin : std::uint8_t {
  forward,    ///< place: index into Timeline::places; op, tensor: its block's or kKernelScratch
  recompute,  ///< the same, of a checkpoint's second forward
  unpacked,   ///< the same: a saved tensor, back from the host
  backward,   ///< the same; tensor: whose gradient it is like
  parameter,  ///< place: in Timeline::parameters; tensor: 0 itself, kMasterCopy, states from 1
  buffer,     ///< place: index into Timeline::buffers
  unit,       ///< place: its first block; op: 1 where it has several; tensor: a UnitTensor
  loop        ///< tensor: a LoopTensor
};

/// Tensors that the training loop makes itself.
enum class LoopTensor : std::uint16_t {
  batch,
  batch_copy,  ///< made and dropped at once (labels that are the inputs)
  labels,
  images,
  targets,  ///< their number, and what counting them makes
  scaled_loss,
  reported_loss,  ///< the running sum, and what looking at a loss makes
  loss_gradient,
  widened_logits,
  answer_copy,  ///< a wrapper's
  partial_norms,
  norm_of_a_tensor,
  stacked_norms,
  norm,
  clip_coefficient,
  relaid_gradient,  ///< summed or cut over the tensor-parallel ranks
  scaler_state,
  gradient_in_master_type,
  step_temporary,
  shapes,           ///< what the ranks compare and agree on
  barrier,          ///< torch.distributed's, of which the last stays
  broadcast,        ///< a flat copy of the first rank's tensors
  gradient_bucket,  ///< DDP's
  transfer_buffer,  ///< for what comes back from the host
  position_ids,
  documents,  ///< of joined sequences: where they begin, and each token's
  rotations,
  loss_mask,
  attention_mask,
  token_count,  ///< of a step
  loss,
  loss_scale,
  parameter_buffer,  ///< Megatron's flat buffers
  gradient_buffer,
  parameter_shard,  ///< on its way to a main copy
  received,         ///< by one pipeline stage from another
  growing_buffer,
  cublas_workspace,
  cublas_lt_workspace,
  transformer_engine_workspace,
  special_tokens,  ///< generate()'s: of the beginning, the end, padding
  input_ids,       ///< of the pass
  sequences,       ///< with what was generated
  next_logits,     ///< of the last token, in fp32
  scores,          ///< of what may come next, and what is chosen from them
  beams,           ///< which were chosen, and what they are taken from
  beam_scores,
  stopping,         ///< which sequences are done
  reordered_cache,  ///< the keys or values of the chosen beams
  unread_gradient,  ///< Transformer Engine's, of a weight's shape
  teacher,          ///< a distillation's: its weights
  average,          ///< the moving one of the weights
  generator_state   ///< of a random generator that a CUDA graph captures
};
std::string_view name_of(LoopTensor tensor);

/// Tensors that FSDP makes around a unit of sharded parameters.
enum class UnitTensor : std::uint16_t {
  cast_shares,  ///< the rank's own shares in the gathered type
  all_gather_output,
  weight,
  reduce_scatter_input,
  gradients,        ///< the rank's shares of them
  gradient_sum,     ///< whole, of a step's micro-batches so far
  relaid_gradient,  ///< summed or cut over the tensor-parallel ranks
  pointers,         ///< of the pieces that a copy splits or joins
  flat_weights,     ///< FSDP1's, of all of a unit's parameters
  shard,            ///< the rank's part of them
  flat_gradient
};
std::string_view name_of(UnitTensor tensor);
Holding holding_of(UnitTensor tensor);

/// Label::tensor of the optimizer's own copy of a parameter.
inline constexpr std::uint16_t kMasterCopy = 0xFFFF;
inline constexpr std::uint16_t kKernelScratch = 0xFFFF;  ///< of what an operation's kernels ask for

struct Label {
  Holding holding = Holding::activations;
  Origin origin = Origin::loop;
  Phase phase = Phase::model;
  std::uint16_t step = 0;  ///< from 1 on; 0 before the first
  std::uint32_t place = 0;
  std::uint16_t op = 0;
  std::uint16_t tensor = 0;
};

struct Storage {
  std::int64_t bytes = 0;  ///< as asked for, before any rounding
  Label label;
  PartStream stream = Stream::compute;
  bool awaited = false;  ///< its block, freed, is another stream's until Timeline::joined_before
};

enum class EventKind : std::uint8_t { allocate, free };

struct Event {
  EventKind kind = EventKind::allocate;
  StorageId storage = 0;

  friend bool operator==(const Event&, const Event&) = default;
};

/// The events of one phase: [begin, end).
struct Span {
  Phase phase = Phase::model;
  std::uint16_t step = 0;
  std::uint16_t micro_step = 0;  ///< from 1 on; 0 outside micro-steps
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// A block of the forward order.
struct BlockPlace {
  std::uint32_t block = 0;  ///< index into Graph::blocks
  std::int64_t layer = 0;   ///< from 1 on among the checkpointable blocks; 0: none of them
};

/// A parameter or buffer tensor of the model.
struct TensorPlace {
  std::uint32_t row = 0;      ///< of the inventory
  std::int64_t copy = 0;      ///< which of the row's `count`
  std::int64_t elements = 0;  ///< on this rank
  std::int64_t layer = 0;     ///< from 1 on; 0: outside the layers
};

struct Timeline {
  std::vector<Storage> storages;
  std::vector<Event> events;
  std::vector<Span> spans;  ///< in order; what happens between two phases is in none
  std::vector<BlockPlace> places;
  std::vector<TensorPlace> parameters;  ///< in the order of Module.parameters()
  std::vector<TensorPlace> buffers;
  std::int64_t layers = 0;
  /// The event before which the program has the allocator give back what it caches; absent: none.
  std::optional<std::uint32_t> emptied_before;
  /// The event before which a capture has ended: what was freed in it and awaited may be handed out
  /// again. Absent: nothing is awaited.
  std::optional<std::uint32_t> joined_before;
};

/// A GPU of the job, as far as its part of the model goes.
struct JobRank {
  std::int64_t pipeline = 0;
  std::int64_t data = 0;  ///< which share of its stage's states it holds (data_ranks.hpp)

  friend bool operator==(const JobRank&, const JobRank&) = default;
};

/// The timeline of `job`'s training or inference (one is present) on one GPU over `graph`, the
/// graph of that rank of the job's pipeline, or why there is none. Follows a few of many
/// micro-steps; what the others leave alive stands beside them. Throws OverflowError.
std::variant<Timeline, Unavailable> write_timeline(const Graph& graph, const Job& job,
                                                   JobRank rank = {});

/// "layer 3 of 32", "head".
std::string place_name(const Timeline& timeline, const Graph& graph, std::uint32_t place);
/// Names the storage for people: "gradient of layer 3 of 32, q_proj, weight".
std::string storage_name(const Timeline& timeline, const Graph& graph, StorageId storage);

}  // namespace memest
