#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graph/lower/images/layer_writer.hpp"
#include "graph/lower/programs/programs.hpp"
#include "memest/spec/layer_blocks.hpp"

namespace memest {
namespace {

/// The first layer's input, where it says so.
Features input_of(const LayerList& list) {
  if (list.reads_images()) return list.image;
  for (const LayerBlock& block : list.blocks) {
    for (const PlainLayer& layer : block.block) {
      if (const auto* linear = std::get_if<LinearLayer>(&layer)) return {linear->in};
      if (const auto* norm = std::get_if<NormLayer>(&layer)) return {norm->size};
      if (std::holds_alternative<EmbeddingLayer>(layer)) return {0};
    }
  }
  return {1};
}

/// Marks what a selective checkpoint keeps of the block: what convolutions and products make
/// (aten.convolution, aten.addmm, aten.mm). Whether PyTorch runs it.
bool keep_contractions(Block& block) {
  std::vector<TensorId> kept;
  const auto is_kept = [&](TensorId id) {
    return std::ranges::find(kept, block.tensors[id].storage) != kept.end();
  };
  for (Op& op : block.ops) {
    // torch/utils/checkpoint.py, _VersionWrapper.get_val: "Tensor cached during selective
    // activation checkpoint has been mutated".
    if (op.kind != OpKind::view && std::ranges::any_of(op.outputs, is_kept)) return false;
    if (class_of(op.kind) != OpClass::contraction) continue;
    op.kept_selectively = true;
    for (const TensorId id : op.outputs) kept.push_back(block.tensors[id].storage);
  }
  return true;
}

void append_block(Graph& graph, Block block, std::int64_t repeat) {
  graph.order.push_back({graph.blocks.size(), repeat});
  graph.blocks.push_back(std::move(block));
}

/// Lowers the blocks of a list, each once: what comes again, behind the same, is the same block.
class BlockWriter {
 public:
  BlockWriter(Graph& graph, LayerStream stream, const LoweringPolicy& policy)
      : graph_(graph), stream_(std::move(stream)), policy_(policy) {}

  void write(const LayerBlock& list) {
    if (list.repeat == 0) return;
    const LayerStream before = stream_;
    if (!append(list, 1)) return;
    const std::int64_t rest = list.repeat - 1;
    if (rest == 0) return;
    // A repeat's first block differs from the rest where its input does: in whether a gradient goes
    // through it, in its type, and in whether the block before keeps it.
    if (before == stream_) {
      graph_.order.back().repeat = list.repeat;
    } else {
      append(list, rest);
    }
  }

  [[nodiscard]] const LayerStream& stream() const { return stream_; }
  /// The part of the blocks that is not known, in words; empty where all is.
  [[nodiscard]] std::string_view unknown() const { return unknown_; }

 private:
  struct Made {
    const LayerBlock* list;
    LayerStream before;
    LayerStream after;
    std::size_t block;
  };

  /// False where the layers do nothing.
  bool append(const LayerBlock& list, std::int64_t repeat) {
    for (const Made& made : made_) {
      if (made.before != stream_ || !have_same_layers(*made.list, list)) continue;
      graph_.order.push_back({made.block, repeat});
      stream_ = made.after;
      return true;
    }
    const LayerStream before = stream_;
    ListWriter writer(stream_, policy_);
    for (const PlainLayer& layer : list.block) writer.write(layer);
    if (writer.empty()) return false;  // dropout of nothing: what comes is handed on
    stream_ = writer.stream();
    if (unknown_.empty()) unknown_ = writer.unknown();
    Block block = std::move(writer).take(is_checkpointable(list, stream_.images));
    if (policy_.keeps_contractions && block.checkpointable && !keep_contractions(block)) {
      unknown_ =
          "PyTorch refuses a selective checkpoint of which something writes over what is "
          "kept: an activation in place behind a convolution or a linear layer";
    }
    append_block(graph_, std::move(block), repeat);
    made_.push_back({&list, before, stream_, graph_.blocks.size() - 1});
    return true;
  }

  Graph& graph_;
  LayerStream stream_;
  const LoweringPolicy& policy_;
  std::vector<Made> made_;
  std::string_view unknown_;
};

}  // namespace

std::variant<Graph, Unavailable> lower_layer_list(const ModelSpec& model,
                                                  const LoweringPolicy& policy) {
  if (model.adapter) return Unavailable{"adapters of a list of layers are not available yet"};
  if (policy.end != ForwardEnd::cross_entropy || policy.key_value_cache) {
    return Unavailable{"a list of layers has no logits and no cache: its loss is its mean square"};
  }
  const auto& list = std::get<LayerList>(model.architecture);
  // With 16-bit images of 32 channels and more PyTorch asks cuDNN which depthwise kernel to take.
  if (list.reads_images() && policy.compute == DType::fp16) {
    return Unavailable{"convolutional nets in fp16 are not available yet; bf16 and fp32 are"};
  }
  if (!list.reads_images() && policy.keeps_contractions) {
    return Unavailable{
        "selective recompute of a list of layers that reads no images is not available yet"};
  }
  Graph graph;
  BlockWriter blocks(graph, {input_of(list), policy.weights, false, false, list.reads_images()},
                     policy);
  for (const LayerBlock& block : list.blocks) blocks.write(block);
  if (!blocks.unknown().empty()) return Unavailable{std::string(blocks.unknown())};
  ListWriter loss(blocks.stream(), policy);
  loss.write_loss(list.loss);
  append_block(graph, std::move(loss).take(false), 1);
  graph.blocks.back().name = "loss";
  bind_tokens(graph.sizes, policy.micro_batch, policy.seq_len);
  graph.parameters = parameters_of(model, policy.implementation);
  return graph;
}

}  // namespace memest
