// get_rope_index: positions of text count on, an image's are its rows and columns; and the tables
// of cosines and sines of the three (apply_multimodal_rotary_pos_emb's are made at once in 5.17).
#include <array>
#include <utility>

#include "graph/lower/ops/operations.hpp"
#include "graph/lower/vision/packed_tower.hpp"

namespace memest {
namespace {

constexpr std::string_view kGridIds = "position_ids";
constexpr std::string_view kGridTable = "rotary_table";

class GridPositions {
 public:
  GridPositions(BlockBuilder& block, const DecoderContext& context)
      : block_(block), context_(context), vision_(*context.vision) {
    const std::int64_t text = context.policy.seq_len - vision_.images * vision_.tokens_of_image();
    piece_ = text / (vision_.images + 1);
    rest_ = text - piece_ * vision_.images;
  }

  /// Answers the ids, [3, b, s].
  TensorId write() {
    const TensorId ids = numbers("ids", {Expr(3), context_.dims.b, context_.dims.s}, {});
    block_.outlive(ids, "position ids");
    const std::int64_t rows = context_.policy.micro_batch;
    for (std::int64_t row = 0; row < rows; ++row) write_row(row + 1 == rows);
    const TensorId deltas = numbers("deltas", {context_.dims.b, Expr(1)}, held_);
    // self.rope_deltas
    block_.name_attributes({deltas});
    block_.answer(deltas);
    return ids;
  }

 private:
  using Tensors = std::vector<TensorId>;

  TensorId numbers(std::string_view name, Shape shape, const Tensors& of,
                   DType dtype = DType::int64) {
    return compute(block_, OpKind::copy, of, {{kGridIds, name}, std::move(shape), dtype});
  }
  static void append(Tensors& to, const Tensors& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  void write_row(bool is_last) {
    Tensors pieces;
    Tensors position;  // the counter, where it is on the device
    for (std::int64_t image = 0; image < vision_.images; ++image) {
      pieces.push_back(text(piece_, position));
      const TensorId one = grid(position);
      if (image + 1 < vision_.images) pieces.push_back(one);
      advance(position);
      last_grid_ = {one};  // has a name until the next row's first
    }
    pieces.push_back(text(rest_, position));
    Tensors joined = pieces;
    append(joined, last_grid_);
    append(joined, last_whole_);
    last_whole_ = {numbers("of a sequence", {Expr(3), context_.dims.s}, joined)};
    const TensorId largest = numbers("largest", {Expr(1)}, last_whole_);
    const TensorId next = numbers("next", {Expr(1)}, {largest});
    // The list of pieces and the counter go when the next row begins, or with the function.
    Tensors ended = {next};
    Tensors& holder = is_last ? held_ : ended;
    append(holder, pieces);
    append(holder, position);
    const TensorId delta = numbers("delta", {Expr(1)}, ended);
    held_.push_back(delta);
    if (!is_last) return;
    append(held_, last_grid_);
    append(held_, last_whole_);
  }

  TensorId text(std::int64_t length, const Tensors& position) {
    Tensors of = {numbers("text", {Expr(length)}, {})};
    append(of, position);
    return numbers("text positions", {Expr(3), Expr(length)}, of);
  }

  TensorId grid(const Tensors& position) {
    const std::int64_t merge = vision_.projector.pool;
    const PatchEmbedding& patches = vision_.tower.patches;
    const std::array<std::int64_t, 3> sides = {1, patches.rows() / merge,
                                               patches.columns() / merge};
    Frame function(block_);
    Tensors axes;
    for (const std::int64_t side : sides) {
      Tensors of = {numbers("range", {Expr(side)}, {})};
      append(of, position);
      axes.push_back(function.local(numbers("axis", {Expr(side)}, of)));
    }
    const TensorId one = numbers("of an image", {Expr(3), Expr(sides[1] * sides[2])}, axes);
    for (const TensorId before : last_grid_) function.local(before);
    last_grid_.clear();
    return one;
  }

  /// current_pos += max(h, w) // merge: a number at first, then in place.
  void advance(Tensors& position) {
    numbers("wider", {Expr(1)}, {}, DType::boolean);
    const TensorId side = numbers("side", {Expr(1)}, {});
    if (position.empty()) position = {numbers("counter", {Expr(1)}, {side})};
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const VisionPart& vision_;
  std::int64_t piece_ = 0;  ///< tokens of text before each image
  std::int64_t rest_ = 0;   ///< and behind the last
  Tensors held_;            ///< until the end
  Tensors last_grid_;
  Tensors last_whole_;
};

/// Qwen2VLRotaryEmbedding.forward
void write_grid_tables(BlockBuilder& block, const DecoderContext& context, TensorId ids) {
  const Dimensions& dims = context.dims;
  const Expr half = Expr(Symbol::rotary_dim) / Expr(2);
  const Shape angles_shape = {Expr(3), dims.b, dims.s, half};
  Frame function(block);
  const TensorId positions =
      function.local(compute(block, OpKind::cast, {ids},
                             {{kGridTable, "positions"}, {Expr(3), dims.b, dims.s}, DType::fp32}));
  Op product;
  product.kind = OpKind::rotary;
  product.name = kGridTable;
  product.inputs = {positions};
  const TensorId angles =
      function.local(block.make({kGridTable, "frequencies"}, angles_shape, DType::fp32));
  product.outputs = {angles};
  product.workspace = Workspace::cublas;
  block.emit(std::move(product), {Expr(2) * half * Expr(3) * dims.b * dims.s, Expr()});
  std::array<TensorId, 2> scaled{};
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const TensorId raw =
        compute(block, OpKind::activation, {angles},
                {{kGridTable, i == 0 ? "cosines" : "sines"}, angles_shape, DType::fp32});
    scaled[i] = compute(
        block, OpKind::scale, {raw},
        {{kGridTable, i == 0 ? "scaled cosines" : "scaled sines"}, angles_shape, DType::fp32});
  }
  // Sines first: sin = self.recomposition_frequencies(sin).
  std::array<TensorId, 2> tables{};
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    const TensorId chosen = compute(block, OpKind::concatenate, {scaled[i]},
                                    {{kGridTable, i == 0 ? "cos of sections" : "sin of sections"},
                                     {dims.b, dims.s, half},
                                     DType::fp32});
    tables[i] = compute(
        block, OpKind::concatenate, {chosen, scaled[i]},
        {{kGridTable, i == 0 ? "cos" : "sin"}, {dims.b, dims.s, Expr(2) * half}, DType::fp32});
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const TensorId out = cast(block, {kGridTable, i == 0 ? "cos in type" : "sin in type"},
                              tables[i], block.precision().weights);
    if (out != tables[i]) function.local(tables[i]);
    block.outlive(out, i == 0 ? "cos" : "sin");
  }
}

}  // namespace

void write_grid_positions(BlockBuilder& block, const DecoderContext& context) {
  const TensorId ids = GridPositions(block, context).write();
  write_grid_tables(block, context, ids);
}

}  // namespace memest
