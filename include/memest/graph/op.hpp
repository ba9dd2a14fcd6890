// An operation with its autograd rule: what it reads, writes and keeps for its backward pass, and
// what both passes cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "memest/graph/message.hpp"
#include "memest/graph/remade.hpp"
#include "memest/graph/step.hpp"
#include "memest/graph/tensor.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest {

/// The field's classes of operations, by what bounds them.
enum class OpClass : std::uint8_t {
  contraction,
  normalization,
  elementwise,
  movement,
  collective,
  waiting  ///< for other ranks
};

enum class OpKind : std::uint8_t {
  linear,  // contraction
  convolution,
  batched_matmul,
  attention,  // fused attention: flash, efficient, cuDNN, math
  softmax,    // normalization
  layernorm,
  rmsnorm,
  batchnorm,
  cross_entropy,
  mean_square,
  activation,  // elementwise
  dropout,
  add,
  multiply,
  scale,
  cast,
  mask,
  rotary,
  power,
  reduce,  // mean, sum
  pooling,
  embedding,  // movement
  copy,
  concatenate,
  view,     ///< no kernel: another shape, or a part, of the same storage
  exchange  // collective: its messages alone move what it answers
};

OpClass class_of(OpKind kind);
/// "linear", "batched-matmul", ...
std::string_view name_of(OpKind kind);
std::string_view name_of(OpClass op_class);

/// The FLOPs and bytes of one pass of an operation.
struct Work {
  Expr flops;  ///< 2·m·n·k of contractions (attention's by torch's FlopCounterMode); else zero
  Expr bytes;  ///< read and written once, as the kernel would without cache misses

  friend bool operator==(const Work&, const Work&) = default;
};

/// Bytes that casts of a product's operands to its narrower type read and write beside it.
struct OperandCasts {
  OperandScaling scaling = OperandScaling::none;
  Expr forward;
  Expr backward;
  Expr in_a_step;  ///< of its weight, once for all micro-steps

  friend bool operator==(const OperandCasts&, const OperandCasts&) = default;
};

/// A tensor that an op's backward makes: as many elements as `like` has, in `dtype`.
struct BackwardTensor {
  TensorId like = 0;
  DType dtype = DType::fp32;
  bool written = true;  ///< else memory that no kernel touches

  friend bool operator==(const BackwardTensor&, const BackwardTensor&) = default;
};

/// A kernel that asks for scratch beside the tensors of its op, by its launch on a GPU
/// (kernel_scratch.hpp).
struct KernelLaunch {
  enum class Kind : std::uint8_t {
    reduction,           ///< [outer, reduced, inner] summed over the middle
    channel_sum,         ///< of images, [outer, reduced, inner] summed over outer and inner
    maximum,             ///< the largest of the middle, compared in its own type
    scan,                ///< a running sum over one row of `reduced`
    norm_backward,       ///< over `outer` rows of `reduced`
    embedding_backward,  ///< of `outer` indices into a table of [reduced, inner], which it makes
    sort,                ///< of one row of `reduced` integers of 64 bits, with their numbers
    index_sum,           ///< rows added to `reduced` rows at `outer` indices
    host_index_sum,      ///< the same at indices that the host has
    index_order,         ///< the order of `outer` indices of `reduced` rows, sorted
    count_flags,         ///< how many of `reduced` flags are set
    select_flags,        ///< the places of those that are set
    grouped_product      ///< `reduced` products in one call, each of [outer, inner] about
  };
  Kind kind = Kind::reduction;
  Expr outer{1};
  Expr reduced{1};
  Expr inner{1};
  DType dtype = DType::fp32;
  Expr scratch_bytes;     ///< what counts in formulas; zero where the launch alone decides
  bool has_bias = false;  ///< norm_backward: the bias's gradient is asked for too
  /// Index into Op::backward_tensors: of what embedding_backward makes, of the first gradient that
  /// norm_backward sums.
  std::uint8_t result = 0;

  friend bool operator==(const KernelLaunch&, const KernelLaunch&) = default;
};

/// How a gradient comes to the op that made the tensor. Autograd adds a second gradient in place
/// only where nothing else holds the first one's storage, and a view's base does. Gradients wrapped
/// in a type of their own (DTensor's) are never added in place.
enum class Reach : std::uint8_t {
  directly,
  through_view,
  transposed,  ///< a view that lies otherwise than the tensor
  wrapped,
  summed  ///< by the fused kernel that makes it, with what waits there already
};

/// Where the gradient of one input comes from.
struct InputGradient {
  /// In place of an index: the gradient of the op's output itself.
  static constexpr std::uint8_t kHandedOn = std::numeric_limits<std::uint8_t>::max();
  /// Likewise: the first tensor that the op saves, written in place.
  static constexpr std::uint8_t kKept = kHandedOn - 1;

  TensorId input = 0;
  std::uint8_t tensor = kHandedOn;  ///< index into Op::backward_tensors
  Reach reach = Reach::directly;

  friend bool operator==(const InputGradient&, const InputGradient&) = default;
};

/// The workspace that a library keeps from the first call of a thread on; Transformer Engine's
/// products have one for the process.
enum class Workspace : std::uint8_t {
  none,
  cublas,
  cublas_lt,        ///< of the forward; the backward is two plain products
  cublas_lt_twice,  ///< of both passes
  transformer_engine
};

/// One call of the framework's dispatcher: PyTorch's ATen operator, or an equal of it.
struct Op {
  OpKind kind = OpKind::linear;
  std::string_view
      name;  ///< a literal: "q_proj"; the casts and copies that feed an op share its name
  std::vector<TensorId> inputs;  ///< parameters included
  std::vector<TensorId> outputs;
  std::vector<TensorId> saved;  ///< kept until this op's backward has run
  /// Saved ones that are dense, but with dimensions in another order than rows have.
  std::vector<TensorId> transposed;
  bool multiplies_again = false;  ///< its backward begins with the forward's product
  bool saves_behind = false;  ///< when it has run, as a torch.autograd.Function of Python's does
  std::vector<TensorId> forward_scratch;  ///< made before the outputs, gone after them
  /// The forward step by step where it is many kernels: what it makes counts the scratch and behind
  /// it the outputs; scratch alone ends here. A launch is one of forward_launches.
  std::vector<Step> forward_steps;
  /// The backward, step by step: what it makes beside saved tensors and incoming gradients.
  std::vector<BackwardTensor> backward_tensors;
  std::vector<Step> backward_steps;
  /// In place of backward_steps where the output's gradient is a part of a joint's, apart in
  /// memory, which the kernels take copied; empty: as it is.
  std::vector<Step> steps_of_part;
  /// How many of them are the node's own; after these the engine sums and casts the gradients of
  /// broadcast and narrower inputs.
  std::size_t own_steps = std::numeric_limits<std::size_t>::max();
  std::vector<KernelLaunch> forward_launches;  ///< after the outputs are made
  std::vector<KernelLaunch> backward_launches;
  /// Gradients that leave the backward, in the order of the edges; of inputs that want one.
  std::vector<InputGradient> gradients;
  /// Storages whose last reference from the running program ends after the forward: temporaries
  /// with their last use, locals with their function's end.
  std::vector<TensorId> releases;
  bool ends_autocast = false;  ///< the context is left behind it: its copies of weights go
  bool ends_model = false;     ///< the program has what the model answers: its loss begins behind
  /// Tensors that attributes of its node (Python's ctx) name: as long as the graph.
  std::vector<TensorId> named_by_node;
  /// Tensors that attributes of a module name from here on, each in place of its last forward's,
  /// and those that the nodes behind these name, where there is a graph.
  std::vector<TensorId> attributes;
  std::vector<TensorId> attributes_by_graph = {};
  Workspace workspace = Workspace::none;  ///< asked for after the outputs are made
  /// Bytes that the passes ask of the process's one buffer that only grows (Megatron's global
  /// memory buffer), before they make anything; zero: none.
  Expr forward_buffer;
  Expr backward_buffer;
  /// A parameter whose gradient the backward adds to the process's buffer of gradients by itself.
  /// In its place it answers an unread tensor.
  std::optional<TensorId> adds_to_buffer = {};
  /// Which the process makes once for every shape and keeps (Transformer Engine's get_dummy_wgrad).
  bool keeps_unread = true;
  bool once = false;  ///< runs in the first forward alone
  /// Runs as the block is called, before its gathering and its checkpoint: only its first ops do.
  bool by_caller = false;
  /// As large as these is what the backward makes beside where its compiled region computes the
  /// forward again: products' inputs, and gradients in no kept tensor's place.
  std::vector<TensorId> made_when_recomputed;
  /// There so many of the first steps run after all others, with what was saved gone.
  std::size_t waiting_steps = 0;
  std::size_t first_product = 1;  ///< steps of the backward until its first product asks for one
  Work forward;
  Work backward;
  /// Messages of each pass: the forward sends after its kernels, or before them where it
  /// all-gathers; no message where the group has one rank.
  std::vector<Message> forward_messages;
  std::vector<Message> backward_messages;
  DType compute = DType::fp32;  ///< operand type of a contraction: selects the peak rate
  OperandCasts casts = {};
  /// So many kernels run one after another: the steps of a ring of ranks, of which each spans so
  /// many ranks' parts (all, where heads are exchanged), or products of a part of the rows each.
  std::int64_t kernels = 1;
  std::int64_t parts = 1;
  std::int64_t window = 0;     ///< tokens that a causal kernel looks back at, its own too; 0: all
  std::int64_t documents = 1;  ///< of each sequence, which attention sees one after the other
  LayerParts part_of = {};
  Remade remade = Remade::nothing;  ///< part of what makes such results
  bool answers_part = false;        ///< and its first output is one of them
  Remade drops = Remade::nothing;   ///< the last of their readers: behind it they are thrown away
  bool kept_selectively = false;    ///< selective recompute keeps what it makes
  bool keeps_absolutes = false;     ///< and what StepOf::absolute does
  bool keeps_maxima = false;        ///< and StepOf::maximum
  bool causal = false;   ///< an attention whose masked half some conventions do not count
  bool flash_2 = false;  ///< an attention that FlashAttention 2 runs on every GPU
  /// Whether selective recompute keeps what the step of its forward belongs to.
  [[nodiscard]] bool keeps_selectively(const Step& step) const {
    return (step.of == StepOf::result && kept_selectively) ||
           (step.of == StepOf::absolute && keeps_absolutes) ||
           (step.of == StepOf::maximum && keeps_maxima);
  }

  friend bool operator==(const Op&, const Op&) = default;
};

}  // namespace memest
