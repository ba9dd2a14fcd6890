#include <optional>
#include <utility>

#include "graph/lower/ops/operations.hpp"
#include "graph/lower/programs/programs.hpp"
#include "memest/spec/layer_blocks.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// The tensor that one block hands to the next.
struct BlockStream {
  std::int64_t width = 0;
  DType dtype = DType::bf16;
  bool needs_gradient = false;
  bool kept = false;  ///< the last op keeps it already
};

/// The width of what the first layer reads, where it says so.
std::int64_t input_width(const LayerList& list) {
  for (const LayerBlock& block : list.blocks) {
    for (const PlainLayer& layer : block.block) {
      if (const auto* linear = std::get_if<LinearLayer>(&layer)) return linear->in;
      if (const auto* norm = std::get_if<NormLayer>(&layer)) return norm->size;
      if (std::holds_alternative<EmbeddingLayer>(layer)) return 0;
    }
  }
  return 1;
}

class LayerListWriter {
 public:
  LayerListWriter(const BlockStream& stream, const LoweringPolicy& policy)
      : stream_(stream),
        policy_(policy),
        block_("layer", {policy.weights, policy.compute, policy.autocast}) {
    x_ = block_.block_input(shape(), stream.dtype);
    block_.set_needs_gradient(x_, stream.needs_gradient);
    block_.tensor(x_).kept_before = stream.kept;
  }

  void write(const PlainLayer& layer) {
    // A layer's argument is named until it returns.
    Frame call(block_);
    call.local(x_);
    std::visit([this](const auto& kind) { write(kind); }, layer);
  }

  /// The mean square of the output; autocast takes the square in fp32.
  void write_loss() {
    const TensorId x = policy_.autocast ? cast(block_, {"loss", "in fp32"}, x_, DType::fp32) : x_;
    // pow is one of AT_FORALL_FP32.
    const TensorId squares = power(block_, {"loss", "squares"}, x);
    Op op;
    op.kind = OpKind::mean_square;
    op.name = "loss";
    op.inputs = {squares};
    x_ = block_.make({"loss"}, {Expr(1)}, block_.dtype_of(x));
    op.outputs = {x_};
    KernelLaunch sum;
    sum.reduced = block_.tensor(squares).elements();
    sum.dtype = block_.dtype_of(squares);
    op.forward_launches = {std::move(sum)};
    BackwardWriter backward(op);
    backward.give(squares, backward.make(squares, block_.dtype_of(squares)));
    block_.emit(std::move(op));
  }

  [[nodiscard]] BlockStream stream() const {
    BlockStream next = stream_;
    next.dtype = block_.dtype_of(x_);
    next.needs_gradient = block_.needs_gradient(x_);
    next.kept = kept_;
    return next;
  }

  [[nodiscard]] Block take(bool checkpointable) && {
    return std::move(block_).take(x_, checkpointable);
  }

 private:
  [[nodiscard]] static Shape rows() { return {Symbol::micro_batch, Symbol::seq_len}; }
  [[nodiscard]] Shape shape() const {
    Shape result = rows();
    if (stream_.width > 0) result.emplace_back(stream_.width);
    return result;
  }

  void write(const LinearLayer& layer) {
    x_ = linear(block_, {"linear", Expr(layer.in), Expr(layer.out), layer.bias}, {rows(), x_});
    stream_.width = layer.out;
    kept_ = false;
  }

  void write(const ActivationLayer& layer) {
    const TensorId given = x_;
    x_ = activation(block_, {"activation", layer.function, ActivationWriting::one_kernel}, x_);
    // nn.ReLU(inplace=True): relu_'s backward reads the result, so that the input may be
    // overwritten.
    if (layer.in_place) block_.tensor(x_).storage = block_.tensor(given).storage;
    switch (layer.function) {
      case ActivationFunction::relu:
      case ActivationFunction::sigmoid:
      case ActivationFunction::tanh:
        kept_ = block_.needs_gradient(x_);
        break;
      case ActivationFunction::gelu:
      case ActivationFunction::gelu_tanh:
      case ActivationFunction::gelu_new:
      case ActivationFunction::gelu_fast:
      case ActivationFunction::gelu_bloom:
      case ActivationFunction::quick_gelu:
      case ActivationFunction::relu2:
      case ActivationFunction::silu:
        kept_ = false;
        break;
    }
  }

  void write(const NormLayer& layer) {
    const bool rms = layer.kind == NormKind::rmsnorm;
    // Autocast runs layer_norm in fp32 and leaves rms_norm alone.
    const TensorId x =
        policy_.autocast && !rms ? cast(block_, {"norm", "in fp32"}, x_, DType::fp32) : x_;
    NormKernelPart part = {.name = "norm", .rms = rms};
    part.gain = block_.parameter({"norm", "weight"}, {Expr(layer.size)});
    if (!rms && layer.bias) part.bias = block_.parameter({"norm", "bias"}, {Expr(layer.size)});
    x_ = normalize(block_, part, x);
    kept_ = false;
  }

  void write(const SoftmaxLayer&) {
    x_ = softmax(block_, "softmax", x_, policy_.autocast ? DType::fp32 : block_.dtype_of(x_));
    kept_ = block_.needs_gradient(x_);
  }

  void write(const DropoutLayer& layer) {
    const double probability = policy_.dropout ? layer.probability : 0.0;
    if (probability <= 0) return;
    x_ = layer.in_place ? dropped_in_place() : dropout(block_, "dropout", probability, x_);
    kept_ = false;
  }

  /// x times noise in its own type, which is kept.
  TensorId dropped_in_place() {
    // F.dropout(inplace=True) is at::dropout_, which is not native_dropout:
    // empty_like(input).bernoulli_(1 − p).div_(1 − p), then input.mul_(noise). Its noise takes 2 or
    // 4 bytes an element, the other's mask one.
    const TensorId noise =
        block_.make({"dropout", "noise"}, block_.tensor(x_).shape, block_.dtype_of(x_));
    Op op;
    op.kind = OpKind::dropout;
    op.name = "dropout";
    op.inputs = {x_};
    const TensorId out = block_.alias({"dropout"}, x_, block_.tensor(x_).shape);
    op.outputs = {noise, out};
    op.saved = {noise};
    BackwardWriter backward(op);
    backward.give(x_, backward.make(x_, block_.dtype_of(x_)));
    block_.emit(std::move(op));
    return out;
  }

  void write(const EmbeddingLayer& layer) {
    const TensorId table =
        block_.parameter({"embedding", "weight"}, {Expr(layer.rows), Expr(layer.size)});
    stream_.width = layer.size;
    block_.tensor(x_).dtype = DType::int64;
    const std::int64_t count = checked_multiply(policy_.micro_batch, policy_.seq_len);
    x_ = look_up(block_, "embedding", {x_, table, count, layer.rows});
    kept_ = false;
  }

  BlockStream stream_;
  const LoweringPolicy& policy_;
  BlockBuilder block_;
  TensorId x_ = 0;
  bool kept_ = false;
};

/// Lowers one block after `stream` and moves `stream` behind it.
Block lower_block(const LayerBlock& list, BlockStream& stream, const LoweringPolicy& policy) {
  LayerListWriter writer(stream, policy);
  for (const PlainLayer& layer : list.block) writer.write(layer);
  stream = writer.stream();
  return std::move(writer).take(true);
}

/// A repeat's first block differs from the rest where its input does: in whether a gradient goes
/// through it, in its type, and in whether the block before keeps it.
bool alike(const BlockStream& left, const BlockStream& right) {
  return left.width == right.width && left.dtype == right.dtype &&
         left.needs_gradient == right.needs_gradient && left.kept == right.kept;
}

void append_block(Graph& graph, Block block, std::int64_t repeat) {
  graph.order.push_back({graph.blocks.size(), repeat});
  graph.blocks.push_back(std::move(block));
}

/// Lowers the blocks of a list, each once: what comes again, behind the same, is the same block.
class BlockWriter {
 public:
  BlockWriter(Graph& graph, const BlockStream& stream, const LoweringPolicy& policy)
      : graph_(graph), stream_(stream), policy_(policy) {}

  void write(const LayerBlock& list) {
    if (list.repeat == 0) return;
    const BlockStream before = stream_;
    if (!append(list, 1)) return;
    const std::int64_t rest = list.repeat - 1;
    if (rest == 0) return;
    if (alike(before, stream_)) {
      graph_.order.back().repeat = list.repeat;
    } else {
      append(list, rest);
    }
  }

  [[nodiscard]] const BlockStream& stream() const { return stream_; }

 private:
  struct Made {
    const LayerBlock* list;
    BlockStream before;
    BlockStream after;
    std::size_t block;
  };

  /// False where the layers do nothing.
  bool append(const LayerBlock& list, std::int64_t repeat) {
    for (const Made& made : made_) {
      if (!alike(made.before, stream_) || !have_same_layers(*made.list, list)) continue;
      graph_.order.push_back({made.block, repeat});
      stream_ = made.after;
      return true;
    }
    const BlockStream before = stream_;
    Block block = lower_block(list, stream_, policy_);
    if (block.ops.empty()) {  // dropout of nothing: what comes is handed on
      stream_ = before;
      return false;
    }
    append_block(graph_, std::move(block), repeat);
    made_.push_back({&list, before, stream_, graph_.blocks.size() - 1});
    return true;
  }

  Graph& graph_;
  BlockStream stream_;
  const LoweringPolicy& policy_;
  std::vector<Made> made_;
};

}  // namespace

std::variant<Graph, Unavailable> lower_layer_list(const ModelSpec& model,
                                                  const LoweringPolicy& policy) {
  if (model.adapter) return Unavailable{"adapters of a list of layers are not available yet"};
  if (policy.end != ForwardEnd::cross_entropy || policy.key_value_cache) {
    return Unavailable{"a list of layers has no logits and no cache: its loss is its mean square"};
  }
  const auto& list = std::get<LayerList>(model.architecture);
  Graph graph;
  BlockWriter blocks(graph, {input_width(list), policy.weights, false, false}, policy);
  for (const LayerBlock& block : list.blocks) blocks.write(block);
  LayerListWriter loss(blocks.stream(), policy);
  loss.write_loss();
  append_block(graph, std::move(loss).take(false), 1);
  graph.blocks.back().name = "loss";
  bind_tokens(graph.sizes, policy.micro_batch, policy.seq_len);
  graph.parameters = parameters_of(model, policy.implementation);
  return graph;
}

}  // namespace memest
