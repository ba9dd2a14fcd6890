#include "graph/lower/vision/packed_tower.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "graph/lower/ops/operations.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// As many times as there are images.
AttentionParts image_parts(std::string_view bounds, const std::vector<std::int64_t>& of_image,
                           std::int64_t images) {
  AttentionParts parts{bounds, {}};
  for (std::int64_t image = 0; image < images; ++image) {
    parts.lengths.insert(parts.lengths.end(), of_image.begin(), of_image.end());
  }
  return parts;
}

class PackedTowerWriter {
 public:
  explicit PackedTowerWriter(const DecoderContext& decoder)
      : decoder_(decoder),
        vision_(*decoder.vision),
        tower_(vision_.tower),
        policy_(policy_of_tower(decoder.policy, vision_)),
        context_(context_of_tower(decoder, policy_)),
        whole_(image_parts(kImageBounds, {tower_.patches.patches()}, policy_.micro_batch)) {
    context_.dims.packed = true;
    if (!has_windows()) return;
    windows_ = window_lengths(tower_, vision_.projector.pool);
    in_windows_ = image_parts(kWindowBounds, windows_.lengths, policy_.micro_batch);
  }

  std::vector<VisionBlock> write() && {
    write_by_layer();
    return std::move(blocks_);
  }

 private:
  [[nodiscard]] bool has_windows() const { return tower_.windows.side > 0; }
  [[nodiscard]] const LayerKind& kind() const { return tower_.encoder.kinds.front(); }
  [[nodiscard]] Shape stream() const {
    return {context_.dims.b * context_.dims.s, context_.dims.h};
  }
  void append(Block block, std::int64_t repeat) { blocks_.push_back({std::move(block), repeat}); }
  [[nodiscard]] Block in_numbers(Block block) const {
    write_in_numbers(block, vision_);
    return block;
  }

  /// Checkpoints ask a gradient of the patches (enable_input_require_grads), though nothing there
  /// is trained.
  [[nodiscard]] bool has_graph() const {
    return !vision_.frozen.tower || policy_.runs_again != RunsAgain::nothing;
  }
  [[nodiscard]] bool sees_image(std::int64_t layer) const {
    return !has_windows() ||
           std::ranges::find(tower_.windows.full, layer) != tower_.windows.full.end();
  }
  [[nodiscard]] DecoderContext context_of_layer(std::int64_t layer) const {
    DecoderContext context{context_.decoder, policy_,        context_.program, context_.habits,
                           context_.dims,    context_.names, context_.adapter};
    context.parts = sees_image(layer) ? &whole_ : &in_windows_;
    return context;
  }

  void write_by_layer() {
    BlockBuilder patches("image patches", context_.precision());
    name_text(patches);
    const TensorId x = embed(patches);
    const bool wanted = patches.needs_gradient(x);
    append(in_numbers(std::move(patches).take(x)), 1);
    const std::int64_t layers = tower_.encoder.layers();
    std::int64_t first = 0;
    if (has_graph() && !wanted) {  // the first adapters give no gradient to what is before them
      append(in_numbers(written_layer(0, false)), 1);
      first = 1;
    }
    // Two kinds of layers at most, each of which may stand in several runs.
    std::array<std::optional<Block>, 2> written;
    for (std::int64_t layer = first; layer < layers;) {
      std::int64_t behind = layer + 1;
      while (behind < layers && sees_image(behind) == sees_image(layer)) ++behind;
      std::optional<Block>& block = written[sees_image(layer) ? 0 : 1];
      if (!block) block = in_numbers(written_layer(layer, has_graph()));
      append(*block, behind - layer);
      layer = behind;
    }
    BlockBuilder projector("projector", decoder_.precision());
    const TensorId features = projector.block_input(stream(), context_.stream_type(), has_graph());
    projector.let_input_go();
    append(in_numbers(std::move(projector).take(read(projector, features))), 1);
  }

  [[nodiscard]] Block written_layer(std::int64_t layer, bool wants_gradient) const {
    const DecoderContext own = context_of_layer(layer);
    Block block = layer_block(own, kind(), {.wants_gradient = wants_gradient});
    block.name = sees_image(layer) ? "vision layer" : "vision layer (windows)";
    return block;
  }

  /// The embeddings of the text, whose last reference but one ends here.
  void name_text(BlockBuilder& block) const {
    block.block_input({context_.dims.b / Expr(vision_.images), Expr(decoder_.policy.seq_len),
                       Expr(decoder_.decoder.hidden_size)},
                      policy_.weights, text_wants_gradient(decoder_));
  }

  TensorId embed(BlockBuilder& block) {
    const Dimensions& dims = context_.dims;
    const TensorId pixels =
        block.shared(kPixelValues, {dims.b, dims.s, Expr(tower_.patches.values())}, DType::fp32);
    // pixel_values.type(self.visual.dtype)
    const TensorId given = cast(block, {"patch_embed", "pixels in type"}, pixels, policy_.weights);
    if (given != pixels) block.outlive(given, kTypedPixels);
    PackedPatches patches(block, context_, vision_, policy_.micro_batch);
    const TensorId positions = patches.positions();
    patches.bounds();
    if (has_windows()) patches.window_bounds(windows_);
    TensorId x = patches.cut(given);
    if (policy_.runs_again != RunsAgain::nothing) block.set_needs_gradient(x, true);
    if (has_windows())
      x = rows_by_host(block, {"window_order", "patches"}, x, {squares(), stream()});
    std::array<TensorId, 2> tables = patches.rotary_tables(positions);
    if (has_windows()) tables = in_window_order(block, tables);
    block.outlive(tables[0], kPatchCosines);
    block.outlive(tables[1], kPatchSines);
    return x;
  }

  std::array<TensorId, 2> in_window_order(BlockBuilder& block,
                                          const std::array<TensorId, 2>& tables) const {
    Frame both(block);
    for (const TensorId table : tables) both.local(table);
    std::array<TensorId, 2> ordered{};
    for (std::size_t i = 0; i < tables.size(); ++i) {
      ordered[i] = rows_by_host(block, {"window_order", i == 0 ? "cos" : "sin"}, tables[i],
                                {squares(), block.tensor(tables[i]).shape});
    }
    return ordered;
  }

  /// Squares of patches that become a token each.
  [[nodiscard]] Expr squares() const { return context_.dims.b * Expr(vision_.tokens_of_image()); }

  TensorId read(BlockBuilder& block, TensorId x) {
    TensorId tokens = 0;
    {
      Frame features(block);
      features.local(x);
      tokens = project(block, decoder_, x);
      if (has_windows()) {
        tokens = rows_by_host(block, {"image_order", "tokens"}, tokens,
                              {squares(), block.tensor(tokens).shape});
      }
      for (const std::string_view name :
           {kPatchPositions, kImageBounds, kWindowBounds, kPatchCosines, kPatchSines}) {
        block.let_go(name);
      }
      // image_grid_thw.prod(-1) // self.visual.spatial_merge_size**2
      const Shape row = {context_.dims.b};
      const TensorId patches =
          compute(block, OpKind::reduce, {}, {{"image_features", "patches"}, row, DType::int64});
      compute(block, OpKind::scale, {patches}, {{"image_features", "lengths"}, row, DType::int64});
      block.let_go(kTypedPixels);
    }
    return image_row(block, decoder_, tokens);
  }

  const DecoderContext& decoder_;
  const VisionPart& vision_;
  const VisionTower& tower_;
  LoweringPolicy policy_;
  DecoderContext context_;
  AttentionParts whole_;
  AttentionParts in_windows_;
  WindowLengths windows_;
  std::vector<VisionBlock> blocks_;
};

}  // namespace

std::vector<VisionBlock> packed_tower_blocks(const DecoderContext& context) {
  return PackedTowerWriter(context).write();
}

}  // namespace memest
