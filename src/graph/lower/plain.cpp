#include "plain.hpp"

#include <optional>
#include <utility>

#include "memest/units/int128.hpp"
#include "operations.hpp"

namespace memest {
namespace {

/// What one block hands to the next.
struct Stream {
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
  LayerListWriter(const Stream& stream, const LoweringPolicy& policy)
      : stream_(stream),
        policy_(policy),
        block_("layer", {policy.weights, policy.compute, policy.autocast}) {
    x_ = block_.block_input(shape(), stream.dtype);
    block_.set_needs_gradient(x_, stream.needs_gradient);
    block_.tensor(x_).kept_before = stream.kept;
  }

  void write(const PlainLayer& layer) {
    std::visit([this](const auto& kind) { write(kind); }, layer);
  }

  /// The mean square of the output; autocast takes the square in fp32.
  void write_loss() {
    const TensorId x = policy_.autocast ? cast(block_, {"loss", "in fp32"}, x_, DType::fp32) : x_;
    const TensorId squares = power(block_, {"loss", "squares"}, x);
    Op op;
    op.kind = OpKind::mean_square;
    op.name = "loss";
    op.inputs = {squares};
    x_ = block_.make({"loss"}, {Expr(1)}, block_.dtype_of(x));
    op.outputs = {x_};
    BackwardWriter backward(op);
    backward.give(squares, backward.make(squares, block_.dtype_of(squares)));
    block_.emit(std::move(op));
  }

  [[nodiscard]] Stream stream() const {
    Stream next = stream_;
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
    x_ = linear(block_, {"linear", Expr(layer.in), Expr(layer.out), layer.bias}, rows(), x_);
    stream_.width = layer.out;
    kept_ = false;
  }

  void write(const ActivationLayer& layer) {
    const TensorId given = x_;
    x_ = activation(block_, {"activation", layer.function, ActivationWriting::one_kernel}, x_);
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
    const bool layer_norm = layer.kind == NormKind::layernorm;
    // Autocast runs layer_norm in fp32 and leaves rms_norm alone.
    const TensorId x =
        policy_.autocast && layer_norm ? cast(block_, {"norm", "in fp32"}, x_, DType::fp32) : x_;
    Shape statistics = rows();
    statistics.emplace_back(1);
    Op op;
    op.kind = layer_norm ? OpKind::layernorm : OpKind::rmsnorm;
    op.name = "norm";
    op.inputs = {x, block_.parameter({"norm", "weight"}, {Expr(layer.size)})};
    op.saved = op.inputs;
    if (layer_norm && layer.bias) {
      op.inputs.push_back(block_.parameter({"norm", "bias"}, {Expr(layer.size)}));
    }
    x_ = block_.make({"norm"}, block_.tensor(x).shape, block_.dtype_of(x));
    op.outputs = {x_};
    if (layer_norm) keep(op, block_.make({"norm", "mean"}, statistics, DType::fp32));
    keep(op, block_.make({"norm", "reciprocal deviation"}, statistics, DType::fp32));
    give_each(op);
    block_.emit(std::move(op));
    kept_ = false;
  }

  void write(const SoftmaxLayer&) {
    const DType dtype = policy_.autocast ? DType::fp32 : block_.dtype_of(x_);
    Op op;
    op.kind = OpKind::softmax;
    op.name = "softmax";
    op.inputs = {x_};
    x_ = block_.make({"softmax"}, block_.tensor(x_).shape, dtype);
    op.outputs = {x_};
    op.saved = {x_};
    give_each(op);
    block_.emit(std::move(op));
    kept_ = block_.needs_gradient(x_);
  }

  void write(const DropoutLayer& layer) {
    const TensorId given = x_;
    x_ = dropout(block_, "dropout", policy_.dropout ? layer.probability : 0.0, x_);
    if (layer.in_place) block_.tensor(x_).storage = block_.tensor(given).storage;
    if (x_ != given) kept_ = false;
  }

  void write(const EmbeddingLayer& layer) {
    const TensorId table =
        block_.parameter({"embedding", "weight"}, {Expr(layer.rows), Expr(layer.size)});
    stream_.width = layer.size;
    block_.tensor(x_).dtype = DType::int64;
    Op op;
    op.kind = OpKind::embedding;
    op.name = "embedding";
    op.inputs = {x_, table};
    op.saved = {x_};
    x_ = block_.make({"embedding"}, shape(), policy_.weights);
    op.outputs = {x_};
    give_each(op);
    block_.emit(std::move(op));
    kept_ = false;
  }

  /// One new tensor for the gradient of each input that wants one.
  void give_each(Op& op) {
    BackwardWriter backward(op);
    for (const TensorId id : op.inputs) {
      if (block_.needs_gradient(id)) backward.give(id, backward.make(id, block_.dtype_of(id)));
    }
  }

  static void keep(Op& op, TensorId id) {
    op.outputs.push_back(id);
    op.saved.push_back(id);
  }

  Stream stream_;
  const LoweringPolicy& policy_;
  BlockBuilder block_;
  TensorId x_ = 0;
  bool kept_ = false;
};

/// Lowers one block after `stream` and moves `stream` behind it.
Block lower_block(const LayerBlock& list, Stream& stream, const LoweringPolicy& policy) {
  LayerListWriter writer(stream, policy);
  for (const PlainLayer& layer : list.block) writer.write(layer);
  stream = writer.stream();
  return std::move(writer).take(true);
}

/// A repeat's first block differs from the rest where its input does: in whether a gradient goes
/// through it, in its type, and in whether the block before keeps it.
bool alike(const Stream& left, const Stream& right) {
  return left.width == right.width && left.dtype == right.dtype &&
         left.needs_gradient == right.needs_gradient && left.kept == right.kept;
}

void append(Graph& graph, Block block, std::int64_t repeat) {
  graph.order.push_back({graph.blocks.size(), repeat});
  graph.blocks.push_back(std::move(block));
}

}  // namespace

std::variant<Graph, Unavailable> lower_layers(const LayerList& list, const LoweringPolicy& policy) {
  Graph graph;
  Stream stream{input_width(list), policy.weights, false, false};
  for (const LayerBlock& block : list.blocks) {
    if (block.repeat == 0) continue;
    const Stream before = stream;
    append(graph, lower_block(block, stream, policy), 1);
    const std::int64_t rest = block.repeat - 1;
    if (rest == 0) continue;
    if (alike(before, stream)) {
      graph.order.back().repeat = block.repeat;
    } else {
      append(graph, lower_block(block, stream, policy), rest);
    }
  }
  LayerListWriter loss(stream, policy);
  loss.write_loss();
  append(graph, std::move(loss).take(false), 1);
  graph.blocks.back().name = "loss";
  bind_tokens(graph.sizes, policy.micro_batch, policy.seq_len);
  return graph;
}

}  // namespace memest
