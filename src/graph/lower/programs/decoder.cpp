#include "graph/lower/programs/decoder.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "graph/lower/compile/compiled_region.hpp"
#include "graph/lower/compile/whole_model.hpp"
#include "graph/lower/distillation/distillation.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/trl/trl.hpp"
#include "graph/lower/vision/vision.hpp"
#include "graph/parameters/quantized_parameters.hpp"
#include "graph/parameters/vision_parameters.hpp"

namespace memest {
namespace {

/// Whether a gradient comes back through what the block hands on.
bool wants_gradient(const Block& block) {
  for (const Op& op : block.ops) {
    const bool makes =
        std::find(op.outputs.begin(), op.outputs.end(), block.output) != op.outputs.end();
    if (makes) return !op.gradients.empty();
  }
  return false;
}

/// Blocks of the parts, each written once, in forward order.
class PartWriter {
 public:
  PartWriter(const DecoderContext& context, Graph& graph) : context_(context), graph_(graph) {}

  void write(const ModelPart& part) {
    // A stage gives a gradient to the input that another stage sends it.
    bool wanted = true;
    if (part.embedding) {
      append(embedding());
      wanted = wants_gradient(graph_.blocks.back()) || context_.embeddings_want_gradient();
    }
    if (context_.vision != nullptr) wanted = append_images();
    wanted = append_layers(part, wanted);
    if (!part.head) return;
    if (context_.joins_head_and_loss()) return append(head_and_loss(wanted));
    append(head(wanted));
    if (prefers(context_)) append(sequence_log_probs_block(context_));
    if (context_.policy.gradients) append(loss());
  }

 private:
  [[nodiscard]] Block embedding() {
    Block block = embedding_block(context_);
    if (!context_.compiles_whole()) return block;
    first_input_ = first_layer_input(block, context_.policy.micro_batch);
    return compiled_embedding(std::move(block), first_input_, context_.decoder.tied_embeddings);
  }

  [[nodiscard]] Block head(bool wanted) const {
    Block block = head_block(context_, wanted);
    if (!context_.compiles_whole()) return block;
    return compiled(std::move(block), {.input = RegionInput::sum});
  }

  [[nodiscard]] Block head_and_loss(bool wanted) const {
    const Dimensions& dims = context_.dims;
    BlockBuilder block("loss", context_.precision());
    const TensorId x = block.block_input({dims.b, dims.s, dims.h}, context_.policy.weights, wanted);
    const TensorId loss = context_.program.head_and_loss(block, context_, x);
    return std::move(block).take(loss);
  }

  [[nodiscard]] Block loss() const {
    const bool chunked = context_.policy.implementation.loss == LossKernel::chunked;
    Block block = chunked ? chunked_loss_block(context_) : loss_block(context_);
    if (!context_.compiles_loss() || block.compiled) return block;
    return context_.compiles_whole() ? compiled_loss(std::move(block))
                                     : compiled(std::move(block), {});
  }

  void append(Block block) {
    graph_.order.push_back({graph_.blocks.size(), 1});
    graph_.blocks.push_back(std::move(block));
  }

  /// Tower, projector, and the sequence of text and images, which a gradient always comes to.
  bool append_images() {
    for (VisionBlock& one : tower_blocks(context_)) {
      graph_.order.push_back({graph_.blocks.size(), one.repeat});
      graph_.blocks.push_back(std::move(one.block));
    }
    append(merge_block(context_, wants_gradient(graph_.blocks.back())));
    return wants_gradient(graph_.blocks.back());
  }

  /// Adjacent equal ones are a run. Before the first adapter a layer gives no gradient to its
  /// input. Answers whether the last one's output wants a gradient.
  bool append_layers(const ModelPart& part, bool wanted) {
    const DecoderSpec& decoder = context_.decoder;
    const std::size_t first_run = graph_.order.size();
    for (std::int64_t layer = part.first; layer < part.first + part.count; ++layer) {
      const std::size_t kind = decoder.kind_of(layer);
      const RegionInput input = input_of(layer);
      std::optional<std::size_t>& block = layers_[{kind, wanted, input}];
      if (!block) {
        block = graph_.blocks.size();
        const DecoderContext own = context_of_kind(context_, decoder.kinds[kind]);
        graph_.blocks.push_back(layer_block(own, decoder.kinds[kind], {wanted, input}));
      }
      if (graph_.order.size() > first_run && graph_.order.back().block == *block) {
        ++graph_.order.back().repeat;
      } else {
        graph_.order.push_back({*block, 1});
      }
      wanted = wants_gradient(graph_.blocks[*block]);
    }
    return wanted;
  }

  [[nodiscard]] RegionInput input_of(std::int64_t layer) const {
    if (!context_.compiles_whole()) return RegionInput::argument;
    return layer == 0 ? first_input_ : RegionInput::sum;
  }

  const DecoderContext& context_;
  Graph& graph_;
  // By kind, whether the input wants a gradient, and what it is to the region.
  std::map<std::tuple<std::size_t, bool, RegionInput>, std::optional<std::size_t>> layers_;
  RegionInput first_input_ = RegionInput::argument;
};

}  // namespace

void write_model(const DecoderContext& context, Graph& graph) {
  PartWriter(context, graph)
      .write({.first = 0, .count = context.decoder.layers(), .embedding = true, .head = true});
}

std::variant<Graph, Unavailable> lower_decoder(const ModelSpec& model, const LoweringPolicy& policy,
                                               const DecoderProgram& program) {
  if (model.vision && model.adapter) {
    ModelSpec adapted = model;
    adapted.vision = vision_of(model);
    if (*adapted.vision != *model.vision) return lower_decoder(adapted, policy, program);
  }
  LoweringPolicy own = policy;
  own.frozen = policy.frozen || (model.vision && model.vision->frozen.decoder);
  const std::int64_t before = model.adapter ? model.adapter->virtual_tokens : 0;
  own.seq_len = checked_add(policy.seq_len, before);
  auto made = context_of(model, own, program);
  if (auto* unavailable = std::get_if<Unavailable>(&made)) return std::move(*unavailable);
  const DecoderContext& context = std::get<DecoderContext>(made);
  Graph graph;
  if (policy.parts.empty()) write_model(context, graph);
  PartWriter writer(context, graph);
  for (const ModelPart& part : policy.parts) {
    graph.stages.push_back(graph.order.size());
    writer.write(part);
  }
  if (context.generates()) {
    if (auto refused = append_decoding(model, context, graph)) return *std::move(refused);
  }
  graph.virtual_tokens = before;
  graph.is_one_region = context.compiles_whole();
  graph.trains = policy.gradients && (policy.parts.empty() || policy.parts.back().head);
  bind_sizes(context, graph.sizes);
  graph.parameters = parameters_of(model, policy.implementation);
  if (model.quantized) {
    if (auto refused = uneven_groups(graph.parameters, *model.quantized))
      return *std::move(refused);
  }
  graph.shared_layers = model.shared_layers;
  if (auto refused = append_teacher(policy, graph)) return *std::move(refused);
  return graph;
}

}  // namespace memest
