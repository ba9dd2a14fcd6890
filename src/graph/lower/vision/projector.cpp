// The projector, and the sequence of text and images.
#include <algorithm>
#include <optional>
#include <utility>

#include "graph/lower/attention/numbers.hpp"
#include "graph/lower/ops/indexing.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/vision/packed_tower.hpp"
#include "graph/lower/vision/vision.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

class ProjectorWriter {
 public:
  ProjectorWriter(BlockBuilder& block, const DecoderContext& context)
      : block_(block),
        context_(context),
        vision_(*context.vision),
        images_(context.dims.b),
        width_(vision_.tower.encoder.hidden_size),
        hidden_(context.decoder.hidden_size),
        tokens_(vision_.tokens_of_image()) {}

  TensorId two_layers(TensorId x) {
    const bool bias = vision_.projector.bias;
    const Shape rows = {images_, tokens_};
    bool dense = true;
    if (vision_.tower.drops_class) {
      x = slice(block_, {"image_features", "patches"}, x, {images_, tokens_, width_});
      // One image's part is dense, and so is what autocast casts.
      dense = block_.precision().autocast || images() == 1;
    }
    const Projection2d first{"linear_1", width_, hidden_, bias};
    x = dense ? linear(block_, first, {rows, x}) : matmul_and_sum(first, {rows, x});
    x = activation(
        block_, {"projector_activation", vision_.projector.activation, context_.program.activation},
        x);
    return linear(block_, {"linear_2", hidden_, hidden_, bias}, {rows, x});
  }

  /// Gemma3MultiModalProjector: the positions of an image as one of so many channels, its mean over
  /// squares, and again by positions.
  TensorId pooled(TensorId x) {
    const Expr positions(vision_.tower.patches.positions());
    Frame function(block_);
    x = function.local(
        copy(block_, {"vision_outputs", "by channels"}, x, {images_, width_, positions}));
    x = function.local(mean_of_squares(x));
    const Norm kind{.kind = NormKind::rmsnorm, .gain = NormGain::one_plus_weight};
    const std::size_t first = block_.ops().size();
    x = function.local(norm(block_, context_, {"mm_soft_emb_norm", kind, {width_}}, x));
    sum_by_channels(first);
    // .type_as(vision_outputs), which a norm has widened under autocast.
    return cast(block_, {"mm_input_projection", "in type"}, times_matrix(x),
                context_.policy.weights);
  }

  /// PatchMerger: a norm of each patch, squares of them as one row, two products.
  TensorId merged(TensorId x) {
    const Norm& kind = vision_.tower.encoder.norm;
    x = norm(block_, context_, {"ln_q", kind, {block_.tensor(x).shape.back()}}, x);
    const Expr row = width_ * Expr(vision_.projector.pool * vision_.projector.pool);
    const Shape rows = {images_, tokens_};
    x = view(block_, {"ln_q", "squares"}, x, {images_, tokens_, row});
    Frame call(block_);  // of the nn.Sequential, whose argument is held as long as it runs
    call.local(x);
    x = linear(block_, {"merger_up", row, row, true}, {rows, x});
    x = activation(block_, {"merger_activation", ActivationFunction::gelu}, x);
    return linear(block_, {"merger_down", row, hidden_, true}, {rows, x});
  }

 private:
  /// torch.matmul(x, weight): rows of several images that lie by channels are copied, unless a
  /// batched product reads them (should_fold).
  TensorId times_matrix(TensorId x) {
    const Projection2d shape{"mm_input_projection", width_, hidden_};
    const TensorId weight = block_.parameter({shape.name, "weight"}, {hidden_, width_});
    const TensorId matrix = parameter_in_compute(block_, {shape.name, "cast weight"}, weight);
    Frame call(block_);
    TensorId rows = call.local(to_compute(block_, shape.name, x));
    if (images() > 1 && !vision_.frozen.projector) {
      rows = copy(block_, {shape.name, "rows"}, rows, {images_, tokens_, width_});
    }
    return product_with(block_, shape, {matrix, {}}, {{images_, tokens_}, rows});
  }

  /// torch.nn.AvgPool2d, whose backward copies a gradient that lies by positions: not one image's.
  TensorId mean_of_squares(TensorId x) {
    const TensorId out = block_.make({"avg_pool"}, {images_, tokens_, width_}, block_.dtype_of(x));
    Op op;
    op.kind = OpKind::pooling;
    op.name = "avg_pool";
    op.inputs = {x};
    op.outputs = {out};
    op.saved = {x};
    BackwardWriter backward(op);
    const auto gradient = backward.make(x, block_.dtype_of(x));
    if (images() > 1) backward.drop(backward.make(out, block_.dtype_of(out)));
    backward.give(x, gradient);
    block_.emit(std::move(op));
    return out;
  }

  /// Means over rows that lie by channels are sums of the middle. So do gradients of one image,
  /// whose product reads the rows as they lie and answers their gradient like them.
  void sum_by_channels(std::size_t first) {
    const auto lie_so = [this](std::vector<KernelLaunch>& launches) {
      for (KernelLaunch& launch : launches) {
        if (launch.reduced != width_) continue;
        launch.outer = images_;
        launch.inner = tokens_;
      }
    };
    for (std::size_t i = first; i < block_.ops().size(); ++i) {
      lie_so(block_.ops()[i].forward_launches);
      if (images() == 1) lie_so(block_.ops()[i].backward_launches);
    }
  }

  [[nodiscard]] std::int64_t images() const {
    return checked_multiply(context_.policy.micro_batch, vision_.images);
  }

  /// F.linear of rows that are not dense: at::matmul of a copy, and the bias added in place.
  TensorId matmul_and_sum(Projection2d shape, const Rows& rows) {
    const bool biased = std::exchange(shape.bias, false);
    Frame call(block_);
    call.local(rows.x);
    // Linear algebra's should_fold: a batched product reads such rows as they are, and is taken
    // where the weight wants no gradient.
    const TensorId given = vision_.frozen.projector ? rows.x
                                                    : copy(block_, {shape.name, "rows"}, rows.x,
                                                           block_.tensor(rows.x).shape);
    const TensorId product = linear(block_, shape, {rows.shape, given});
    if (!biased) return product;
    const TensorId bias = block_.parameter({shape.name, "bias"}, {shape.out});
    const TensorId out = block_.alias({shape.name, "sum"}, product, block_.tensor(product).shape);
    Op op;
    op.kind = OpKind::add;
    op.name = shape.name;
    op.inputs = {product, bias};
    op.outputs = {out};
    BackwardWriter backward(op);
    backward.hand_on(product);
    if (block_.needs_gradient(bias)) {
      backward.leave_node();
      backward.give(bias, backward.make(bias, block_.dtype_of(bias)), Reach::through_view);
      const Tensor& sum = block_.tensor(out);
      backward.launch(sum_between(sum.shape, {sum.shape.back()}, sum.dtype));
    }
    block_.emit(std::move(op));
    return out;
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const VisionPart& vision_;
  Expr images_;
  Expr width_;
  Expr hidden_;
  Expr tokens_;
};

/// The backward of masked_scatter: what is written over has no gradient, and what was written is
/// selected by the mask (masked_scatter_backward: grad.masked_select(mask)), by the places of all
/// elements in three dimensions (nonzero).
void write_backward(BlockBuilder& block, TensorId text, TensorId images, Op& op) {
  const DType dtype = block.dtype_of(text);
  BackwardWriter backward(op);
  if (block.needs_gradient(text)) backward.give(text, backward.make(text, dtype));
  if (!block.needs_gradient(images)) return;
  Shape places = block.tensor(images).shape;
  places.insert(places.begin(), Expr(3));
  const TensorId number = scratch(block, {op.name, "number"}, {Expr(1)}, DType::int32);
  const TensorId indices = scratch(block, {op.name, "places"}, std::move(places), DType::int64);
  const auto flags = backward.make(text, DType::boolean);
  const auto count = backward.make(number, DType::int32);
  // The mask is written out for every element of the text.
  backward.launch(search_of_flags(block, KernelLaunch::Kind::count_flags, text));
  const auto found = backward.make(indices, DType::int64);
  backward.launch(search_of_flags(block, KernelLaunch::Kind::select_flags, text));
  backward.drop(count);
  backward.drop(flags);
  const auto selected = backward.make(images, dtype);
  backward.drop(found);
  backward.give(images, selected);
}

/// inputs_embeds.masked_scatter(special_image_mask, image_features): the mask is written out for
/// every element, and its running sum says which element of the images goes where.
TensorId scatter(BlockBuilder& block, TensorId text, TensorId mask, TensorId images) {
  constexpr std::string_view kName = "masked_scatter";
  const Shape shape = block.tensor(text).shape;
  const TensorId flags = block.make({kName, "mask of elements"}, shape, DType::boolean);
  const TensorId before = block.make({kName, "elements before"}, shape, DType::int64);
  const TensorId out = block.make({kName}, shape, block.dtype_of(text));
  Op op;
  op.kind = OpKind::copy;
  op.name = kName;
  op.inputs = {text, mask, images};
  op.outputs = {out, before, flags};
  op.saved = {mask};
  KernelLaunch scan;
  scan.kind = KernelLaunch::Kind::scan;
  scan.reduced = block.tensor(text).elements();
  scan.dtype = DType::int64;
  op.forward_launches = {std::move(scan)};
  write_backward(block, text, images, op);
  block.emit(std::move(op));
  return out;
}

/// get_placeholder_mask: where the images' tokens stand, and whether they are as many as come; the
/// same of videos, which are none, where the model reads some.
class Placeholders {
 public:
  Placeholders(BlockBuilder& block, const DecoderContext& context)
      : block_(block), rows_(context.dims.rows()), videos_(context.vision->tower.packed) {}

  TensorId write() {
    const TensorId tokens = block_.shared("token ids", rows_, DType::int64);
    const TensorId mask = of("image_mask", tokens);
    const std::optional<TensorId> video =
        videos_ ? std::optional(of("video_mask", tokens)) : std::nullopt;
    if (video) block_.outlive(*video, "video mask");
    Frame function(block_);
    const TensorId count = function.local(counted("image_mask", mask));
    {
      Frame check(block_);
      const TensorId elements = number(count, "elements", DType::int64);
      const TensorId equal =
          (videos_ ? check : function).local(number(elements, "equal", DType::boolean));
      number(equal, "all equal", DType::boolean);
    }
    if (video) function.local(counted("video_mask", *video));
    return mask;
  }

 private:
  TensorId of(std::string_view name, TensorId tokens) {
    return compute(block_, OpKind::mask, {tokens}, {{name}, rows_, DType::boolean});
  }
  TensorId number(TensorId of, std::string_view name, DType dtype) {
    return compute(block_, OpKind::scale, {of}, {{"image_mask", name}, {Expr(1)}, dtype});
  }
  TensorId counted(std::string_view name, TensorId mask) {
    const TensorId count = block_.make({name, "count"}, {Expr(1)}, DType::int64);
    Op op;
    op.kind = OpKind::reduce;
    op.name = name;
    op.inputs = {mask};
    op.outputs = {count, block_.make({name, "as numbers"}, rows_, DType::int64)};
    block_.emit(std::move(op));
    return count;
  }

  BlockBuilder& block_;
  Shape rows_;
  bool videos_;
};

/// The tower's numbers.
Numbers numbers_of(const VisionPart& vision) {
  const DecoderSpec& encoder = vision.tower.encoder;
  const SoftmaxAttention attention = heads_of(encoder.attention);
  const auto& part = std::get<DenseFeedForward>(encoder.kinds.front().feed_forward);
  Numbers numbers = Numbers::of_length(vision.tower.patches.positions());
  numbers.add({{Symbol::micro_batch, Expr(vision.images) * Expr(Symbol::micro_batch)},
               {Symbol::hidden_size, Expr(encoder.hidden_size)},
               {Symbol::heads, Expr(attention.heads)},
               {Symbol::kv_heads, Expr(attention.kv_heads)},
               {Symbol::head_dim, Expr(attention.head_dim)},
               {Symbol::rotary_dim, Expr(attention.head_dim)},
               {Symbol::ffn_size, Expr(part.size)}});
  return numbers;
}

}  // namespace

TensorId project(BlockBuilder& block, const DecoderContext& context, TensorId x) {
  const VisionPart& vision = *context.vision;
  const FrozenModules frozen(block, vision.frozen.projector);
  ProjectorWriter writer(block, context);
  switch (vision.projector.kind) {
    case ProjectorKind::two_layers:
      return writer.two_layers(x);
    case ProjectorKind::pooled:
      return writer.pooled(x);
    case ProjectorKind::merged:
      return writer.merged(x);
  }
  return x;
}

/// torch.cat(list(image_features), dim=0): each image is a view, whose gradients are stacked.
TensorId image_row(BlockBuilder& block, const DecoderContext& context, TensorId x) {
  constexpr std::string_view kName = "image_features";
  if (context.vision->projector.kind == ProjectorKind::pooled) {
    block.answer(x);
    return x;
  }
  Frame naming(block);  // the row in its type takes the name of what it is joined of
  naming.local(x);
  const Shape& shape = block.tensor(x).shape;
  const TensorId out = block.make({kName}, {shape[0] * shape[1], shape[2]}, block.dtype_of(x));
  Op op;
  op.kind = OpKind::concatenate;
  op.name = kName;
  op.inputs = {x};
  op.outputs = {out};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  // .to(inputs_embeds.dtype)
  const TensorId tokens = cast(block, {kName, "in type"}, out, context.policy.weights);
  if (context.vision->tower.packed) {
    block.outlive(tokens, "image embeddings");
  } else {
    block.answer(tokens);  // image_hidden_states
  }
  return tokens;
}

bool text_wants_gradient(const DecoderContext& context) {
  const bool trains = !context.vision->frozen.decoder && context.adapter == nullptr;
  return trains || context.embeddings_want_gradient();
}

Block merge_block(const DecoderContext& context, bool images_want_gradient) {
  const VisionPart& vision = *context.vision;
  const Dimensions& dims = context.dims;
  BlockBuilder block("image tokens", context.precision());
  const Expr tokens = Expr(vision.images * vision.tokens_of_image()) * dims.b;
  const TensorId images =
      block.block_input({tokens, dims.h}, context.policy.weights, images_want_gradient);
  const TensorId text =
      block.shared(kTextEmbeddings, {dims.b, dims.s, dims.h}, context.policy.weights);
  block.set_needs_gradient(text, text_wants_gradient(context));
  const TensorId mask = Placeholders(block, context).write();
  block.outlive(mask, "image mask");
  const TensorId x = scatter(block, text, mask, images);
  block.let_go(kTextEmbeddings);
  block.outlive(x, "input embeddings");
  if (context.sees_images_whole()) write_block_masks(block, context);
  if (context.habits.rotates_in_grids) {
    block.shared(kTokenTypes, dims.rows(), DType::int64);
    block.shared(kImageGrids, {Expr(vision.images) * dims.b, Expr(3)}, DType::int64);
    write_grid_positions(block, context);
  } else {
    write_positions(block, context);
  }
  return std::move(block).take(x);
}

void write_in_numbers(Block& block, const VisionPart& vision) {
  const Numbers numbers = numbers_of(vision);
  for (Tensor& tensor : block.tensors) numbers.put(tensor);
  for (Op& op : block.ops) {
    numbers.put(op);
    op.causal = false;
  }
}

}  // namespace memest
