// The vision tower.
#include <utility>

#include "graph/lower/ops/habits.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/vision/packed_tower.hpp"
#include "graph/lower/vision/vision.hpp"
#include "graph/parameters/vision_parameters.hpp"
#include "memest/units/int128.hpp"

namespace memest {

LoweringPolicy policy_of_tower(const LoweringPolicy& policy, const VisionPart& vision) {
  LoweringPolicy own = policy;
  own.micro_batch = checked_multiply(policy.micro_batch, vision.images);
  own.seq_len = vision.tower.patches.positions();
  own.frozen = vision.frozen.tower;
  return own;
}

DecoderContext context_of_tower(const DecoderContext& decoder, const LoweringPolicy& policy) {
  const VisionTower& tower = decoder.vision->tower;
  return {tower.encoder,
          policy,
          decoder.program,
          *habits_of(tower.model_type),
          Dimensions(),
          names_of(tower),
          decoder.vision->frozen.tower ? nullptr : decoder.adapter};
}

namespace {

/// The name by which blocks know what the tower embeds, where no layer keeps it.
constexpr std::string_view kEmbeddedPatches = "embedded patches";

class TowerWriter {
 public:
  explicit TowerWriter(const DecoderContext& decoder)
      : decoder_(decoder),
        vision_(*decoder.vision),
        tower_(vision_.tower),
        policy_(policy_of_tower(decoder.policy, vision_)),
        context_(context_of_tower(decoder, policy_)) {}

  std::vector<VisionBlock> write() && {
    if (vision_.frozen.tower && !patches_want_gradient()) {
      write_whole();
    } else {
      write_by_layer();
    }
    for (VisionBlock& one : blocks_) {
      write_in_numbers(one.block, vision_);
    }
    return std::move(blocks_);
  }

 private:
  [[nodiscard]] Shape stream() const { return {context_.dims.b, context_.dims.s, context_.dims.h}; }
  [[nodiscard]] const LayerKind& kind() const { return tower_.encoder.kinds.front(); }

  void append(Block block, std::int64_t repeat) { blocks_.push_back({std::move(block), repeat}); }

  /// PreTrainedModel.gradient_checkpointing_enable asks a gradient of what every model among the
  /// modules embeds (enable_input_require_grads), the tower's patches too: it runs back to them
  /// though nothing there is trained.
  [[nodiscard]] bool patches_want_gradient() const {
    return policy_.runs_again != RunsAgain::nothing;
  }

  /// Layers as blocks of their own, each of which a checkpoint may stand around.
  void write_by_layer() {
    BlockBuilder patches("image patches", context_.precision());
    name_text(patches);
    const TensorId x = embed(patches);
    bool wanted = patches.needs_gradient(x);
    if (!wanted) patches.outlive(x, kEmbeddedPatches);
    append(std::move(patches).take(x), 1);
    std::int64_t layers = tower_.used;
    if (layers > 0 && !wanted) {  // the first adapters give no gradient to what is before them
      append_layers(1, false);
      wanted = true;
      --layers;
    }
    if (layers > 0) append_layers(layers, true);
    BlockBuilder projector("projector", decoder_.precision());
    const TensorId features = projector.block_input(stream(), policy_.weights, wanted);
    TensorId tokens = 0;
    {
      Frame outputs(projector);
      projector.let_input_go();
      outputs.local(features);
      tokens = read(projector, outputs, features);
    }
    projector.let_go(kEmbeddedPatches);
    append(std::move(projector).take(image_row(projector, decoder_, tokens)), 1);
  }

  void append_layers(std::int64_t count, bool wants_gradient) {
    Block layer = layer_block(context_, kind(), {.wants_gradient = wants_gradient});
    layer.name = "vision layer";
    append(std::move(layer), count);
  }

  /// A tower without a graph, of which the caller holds every layer's result: output_hidden_states.
  void write_whole() {
    BlockBuilder block("images", decoder_.precision());
    name_text(block);
    TensorId tokens = 0;
    {
      Frame outputs(block);
      TensorId x = 0;
      {
        const FrozenModules frozen(block, true);
        x = embed(block);
        if (!names_states()) embedded_ = x;
        for (std::int64_t layer = 0; layer < tower_.used; ++layer) {
          if (names_states()) outputs.local(x);
          Frame call(block);
          call.local(x);
          x = write_layer(block, context_, kind(), x);
        }
      }
      tokens = read(block, outputs, x);
    }
    append(std::move(block).take(image_row(block, decoder_, tokens)), 1);
  }

  /// LlavaModel.get_image_features asks for all hidden states.
  [[nodiscard]] bool names_states() const { return !tower_.reads_normed; }

  /// The embeddings of the text, whose last reference but one ends here.
  void name_text(BlockBuilder& block) const {
    block.block_input({context_.dims.b / Expr(vision_.images), Expr(decoder_.policy.seq_len),
                       Expr(decoder_.decoder.hidden_size)},
                      policy_.weights, text_wants_gradient(decoder_));
  }

  /// Layers behind the one that the projector reads, the tower's last norm, and the projector.
  TensorId read(BlockBuilder& block, Frame& outputs, TensorId x) {
    TensorId features = x;
    {
      const FrozenModules frozen(block, vision_.frozen.tower);
      if (tower_.reads_normed) {
        // SiglipVisionModel.forward names what it embeds and what the encoder answers.
        Frame tower(block);
        if (embedded_) tower.local(*embedded_);
        tower.local(x);
        features = outputs.local(last_norm(block, x));
        block.let_go(kEmbeddedPatches);
      } else {
        write_unread(block, outputs, x);
      }
    }
    return project(block, decoder_, features);
  }

  /// The norm that the projector reads. Its gradient comes by channels where the rows lie so.
  TensorId last_norm(BlockBuilder& block, TensorId x) {
    NormPart part{"post_layernorm", tower_.encoder.norm, {context_.dims.h}};
    part.transposed = context_.habits.stream_transposed;
    const TensorId out = norm(block, context_, part, x);
    Op& op = block.ops().back();
    if (!part.transposed || op.backward_steps.empty()) return out;
    const auto copied = static_cast<std::uint8_t>(op.backward_tensors.size());
    op.backward_tensors.push_back({x, block.dtype_of(x)});
    const Step drop = op.backward_steps.back();
    op.backward_steps.back() = {StepKind::allocate, copied};
    op.backward_steps.push_back({StepKind::free, copied});
    op.backward_steps.push_back(drop);
    return out;
  }

  /// Layers and a norm run though nothing reads them: their graph goes with the tower's outputs.
  void write_unread(BlockBuilder& block, Frame& outputs, TensorId x) {
    const std::size_t first = block.ops().size();
    const std::int64_t layers = tower_.encoder.layers() - tower_.used;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      outputs.local(x);
      x = write_layer(block, context_, kind(), x);
    }
    if (tower_.encoder.final_norm) write_pooled(block, outputs, x);
    const std::vector<TensorId> kept = block.abandon(first);
    // A checkpointed layer keeps its input alone.
    if (policy_.runs_again == RunsAgain::nothing) {
      for (const TensorId id : kept) outputs.local(id);
    }
    outputs.local(x);
  }

  /// pooled_output = last_hidden_state[:, 0, :]; post_layernorm(pooled_output).
  void write_pooled(BlockBuilder& block, Frame& outputs, TensorId x) {
    const std::size_t first = block.ops().size();
    const Shape rows = {context_.dims.b, context_.dims.h};
    const TensorId pooled = slice(block, {"pooled_output"}, x, rows);
    NormPart part{"post_layernorm", tower_.encoder.norm, {context_.dims.h}};
    part.transposed = policy_.micro_batch > 1;  // rows of several images lie apart
    const TensorId normed = norm(block, context_, part, pooled);
    for (const TensorId id : block.abandon(first)) outputs.local(id);
    outputs.local(normed);
  }

  TensorId embed(BlockBuilder& block) {
    const PatchEmbedding& patches = tower_.patches;
    const Dimensions& dims = context_.dims;
    TensorId x = 0;
    {
      Frame function(block);
      const TensorId pixels = block.shared(
          kPixelValues, {dims.b, Expr(patches.channels), Expr(patches.height), Expr(patches.width)},
          DType::fp32);
      // pixel_values.to(dtype=self.patch_embedding.weight.dtype)
      const TensorId given =
          cast(block, {"patch_embedding", "pixels in type"}, pixels, policy_.weights);
      x = function.local(cut(block, given));
      if (!block.needs_gradient(x) && patches_want_gradient()) x = leaf(block, x);
      if (patches.class_token) x = with_class(block, x);
      x = with_positions(block, x);
    }
    if (!tower_.norm_before) return x;
    return norm(block, context_, {"pre_layrnorm", tower_.encoder.norm, {dims.h}}, x);
  }

  /// A convolution whose windows stand side by side. Its gradient comes transposed, and for cuDNN
  /// it is copied first.
  TensorId cut(BlockBuilder& block, TensorId pixels) {
    const PatchEmbedding& patches = tower_.patches;
    const Expr side(patches.patch);
    constexpr std::string_view kName = "patch_embedding";
    TensorId weight =
        block.parameter({kName, "weight"}, {context_.dims.h, Expr(patches.channels), side, side});
    std::optional<TensorId> bias;
    if (patches.bias) bias = block.parameter({kName, "bias"}, {context_.dims.h});
    if (bias) bias = parameter_in_compute(block, {kName, "cast bias"}, *bias);
    weight = parameter_in_compute(block, {kName, "cast weight"}, weight);
    const TensorId image = to_compute(block, kName, pixels);
    const Expr count = patches.class_token ? Expr(patches.patches()) : context_.dims.s;
    const TensorId out =
        block.make({kName}, {context_.dims.b, count, context_.dims.h}, block.dtype_of(weight));
    Op op;
    op.kind = OpKind::convolution;
    op.name = kName;
    op.compute = block.dtype_of(weight);
    op.inputs = {image, weight};
    if (bias) op.inputs.push_back(*bias);
    op.outputs = {out};
    op.saved = {image, weight};
    BackwardWriter backward(op);
    const auto copied = backward.make(out, block.dtype_of(out));
    const auto of_weight = backward.make(weight, block.dtype_of(weight));
    backward.drop(copied);
    backward.give(weight, of_weight);
    if (bias) {
      backward.give(*bias, backward.make(*bias, block.dtype_of(*bias)));
      backward.launch(sum_between(block.tensor(out).shape, {context_.dims.h}, block.dtype_of(out)));
    }
    const Expr flops = Expr(2) * context_.dims.b * count * block.tensor(weight).elements();
    block.emit(std::move(op), {flops, flops});
    return out;
  }

  /// A hook asks a gradient of it, which accumulates there: a part of the joint's is copied.
  [[nodiscard]] static TensorId leaf(BlockBuilder& block, TensorId x) {
    block.set_needs_gradient(x, true);
    return view_copied_back(block, {"patch_embedding", "leaf"}, x, block.tensor(x).shape);
  }

  /// torch.cat([class_embeds, patch_embeds], dim=1)
  TensorId with_class(BlockBuilder& block, TensorId patches) {
    const Dimensions& dims = context_.dims;
    const TensorId one = block.parameter({"class_embedding", "weight"}, {dims.h});
    const TensorId seen =
        block.alias({"class_embedding", "expanded"}, one, {dims.b, Expr(1), dims.h});
    Op op;
    op.kind = OpKind::view;
    op.name = "class_embedding";
    op.inputs = {one};
    op.outputs = {seen};
    BackwardWriter backward(op);
    backward.give(one, backward.make(one, block.dtype_of(one)));
    KernelLaunch sum;
    sum.reduced = dims.b;
    sum.inner = dims.h;
    sum.dtype = block.dtype_of(one);
    backward.launch(std::move(sum));
    block.emit(std::move(op));
    return concatenate(block, {"patches"}, {{seen, patches}}, stream());
  }

  TensorId with_positions(BlockBuilder& block, TensorId x) {
    const Dimensions& dims = context_.dims;
    const std::int64_t rows = tower_.patches.positions();
    constexpr std::string_view kName = "position_embedding";
    const Expr several = policy_.micro_batch == 1 ? dims.b : Expr(1);
    const TensorId ids = block.make({kName, "ids"}, {several, dims.s}, DType::int64, Role::buffer);
    const TensorId table = block.parameter({kName, "weight"}, {dims.s, dims.h});
    const TensorId positions = look_up(block, kName, {ids, table, rows, rows});
    Frame naming(block);  // the sum takes the name of what it is added to
    naming.local(x);
    return add(block, {"add_positions"}, x, positions);
  }

  const DecoderContext& decoder_;
  const VisionPart& vision_;
  const VisionTower& tower_;
  LoweringPolicy policy_;
  DecoderContext context_;
  std::vector<VisionBlock> blocks_;
  std::optional<TensorId> embedded_;  // of a tower written as one block, by name
};

}  // namespace

std::vector<VisionBlock> tower_blocks(const DecoderContext& context) {
  if (context.vision->tower.packed) return packed_tower_blocks(context);
  return TowerWriter(context).write();
}

}  // namespace memest
