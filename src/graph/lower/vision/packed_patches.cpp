// Images of any size as one row of patches: where each patch is, which see one another, and the
// embeddings. Source: transformers 5.17, vision_utils.py and models/{qwen2_vl,qwen2_5_vl}.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "graph/lower/ops/operations.hpp"
#include "graph/lower/vision/packed_tower.hpp"

namespace memest {
namespace {

constexpr std::string_view kPatchIds = "patch_positions";
constexpr std::string_view kPatchBounds = "image_bounds";
constexpr std::string_view kPatchTables = "patch_rotary_table";

KernelLaunch scan_of(std::int64_t items, DType dtype) {
  KernelLaunch scan;
  scan.kind = KernelLaunch::Kind::scan;
  scan.reduced = Expr(items);
  scan.dtype = dtype;
  return scan;
}

/// A sum of a row in `dtype`, of a copy where it is not laid so or is wider.
TensorId summed_row(BlockBuilder& block, std::string_view name, const std::vector<TensorId>& inputs,
                    std::pair<std::int64_t, DType> row) {
  const auto [items, dtype] = row;
  const bool copies = dtype != DType::int64 || items > 1;
  const TensorId sums = block.make({kPatchBounds, name}, {Expr(items)}, dtype);
  Op op;
  op.kind = OpKind::reduce;
  op.name = kPatchBounds;
  op.inputs = inputs;
  op.outputs = {sums};
  if (copies) op.outputs.push_back(block.make({kPatchBounds, "row to sum"}, {Expr(items)}, dtype));
  op.forward_launches = {scan_of(items, dtype)};
  block.emit(std::move(op));
  return sums;
}

}  // namespace

WindowLengths window_lengths(const VisionTower& tower, std::int64_t merge) {
  const std::int64_t side = tower.windows.side / merge;
  const std::int64_t rows = tower.patches.rows() / merge;
  const std::int64_t columns = tower.patches.columns() / merge;
  WindowLengths windows;
  // get_vision_window_index pads by a whole window where the last one is full.
  windows.padded = (rows / side + 1) * (columns / side + 1);
  for (std::int64_t row = 0; row < rows; row += side) {
    for (std::int64_t column = 0; column < columns; column += side) {
      windows.lengths.push_back(std::min(side, rows - row) * std::min(side, columns - column) *
                                merge * merge);
    }
  }
  return windows;
}

/// get_vision_position_ids: row and column of each patch, image by image.
TensorId PackedPatches::positions() {
  const Expr of_image(tower_.patches.patches());
  const auto numbers = [&](std::string_view name, Shape shape, std::vector<TensorId> of) {
    return compute(block_, OpKind::copy, of, {{kPatchIds, name}, std::move(shape), DType::int64});
  };
  Frame function(block_);
  function.local(numbers("merge size", {Expr(1)}, {}));
  std::vector<TensorId> all;
  std::vector<TensorId> before;  // of the image before, until it is another's name
  for (std::int64_t image = 0; image < images_; ++image) {
    const TensorId rows = numbers("rows", {Expr(tower_.patches.rows())}, {});
    const TensorId columns = numbers("columns", {Expr(tower_.patches.columns())}, before);
    before = {numbers("row of each", {of_image}, {rows})};
    before.push_back(numbers("column of each", {of_image}, {columns}));
    const TensorId stacked = numbers("both", {of_image, Expr(2)}, before);
    all.push_back(function.local(numbers("of all frames", {of_image, Expr(2)}, {stacked})));
  }
  for (const TensorId last : before) function.local(last);
  const TensorId ids = numbers("ids", {Expr(images_) * of_image, Expr(2)}, all);
  block_.outlive(ids, kPatchPositions);
  return ids;
}

/// get_vision_cu_seqlens: where each image begins, and the last one ends.
void PackedPatches::bounds() {
  const auto numbers = [&](std::string_view name, std::int64_t count, std::vector<TensorId> of,
                           DType dtype = DType::int64) {
    return compute(block_, OpKind::copy, of, {{kPatchBounds, name}, {Expr(count)}, dtype});
  };
  Frame function(block_);
  TensorId lengths = 0;
  {
    const TensorId patches = numbers("patches", images_, {});
    // torch.repeat_interleave(h·w, t)
    TensorId repeated = 0;
    {
      Frame repeating(block_);
      std::vector<TensorId> frames;
      if (images_ > 1) frames = {repeating.local(numbers("frames", images_, {}))};
      const TensorId sums = summed_row(block_, "frames summed", frames, {images_, DType::int64});
      repeated = numbers("images of frames", images_, {sums});
    }
    lengths = function.local(numbers("lengths", images_, {repeated, patches}));
  }
  const TensorId sums = summed_row(block_, "lengths summed", {lengths}, {images_, DType::int32});
  block_.outlive(numbers("bounds", images_ + 1, {sums}, DType::int32), kImageBounds);
}

/// get_vision_window_index: torch.unique_consecutive of the windows' bounds, empty ones among them.
void PackedPatches::window_bounds(const WindowLengths& windows) {
  const auto count = [this](std::int64_t of_image) { return Expr(images_ * of_image + 1); };
  const TensorId padded =
      compute(block_, OpKind::copy, {},
              {{kPatchBounds, "with empty windows"}, {count(windows.padded)}, DType::int32});
  const TensorId out =
      block_.make({kPatchBounds, "windows"}, {count(windows.padded)}, DType::int32);
  Op op;
  op.kind = OpKind::reduce;
  op.name = kPatchBounds;
  op.inputs = {padded};
  op.outputs = {out, block_.make({kPatchBounds, "number of windows"}, {Expr(1)}, DType::int64)};
  op.forward_launches = {scan_of(images_ * windows.padded + 1, DType::int32)};
  block_.emit(std::move(op));
  block_.outlive(out, kWindowBounds);
}

/// A convolution in three dimensions whose windows stand side by side.
TensorId PackedPatches::cut(TensorId pixels) {
  const PatchEmbedding& patches = tower_.patches;
  const Dimensions& dims = context_.dims;
  constexpr std::string_view kName = "patch_embed";
  TensorId weight = block_.parameter({kName, "weight"}, {dims.h, Expr(patches.values())});
  weight = parameter_in_compute(block_, {kName, "cast weight"}, weight);
  const TensorId image = to_compute(block_, kName, pixels);
  const TensorId out = block_.make({kName}, {dims.b * dims.s, dims.h}, block_.dtype_of(weight));
  Op op;
  op.kind = OpKind::convolution;
  op.name = kName;
  op.compute = block_.dtype_of(weight);
  op.inputs = {image, weight};
  op.outputs = {out};
  op.saved = {image, weight};
  BackwardWriter backward(op);
  backward.give(weight, backward.make(weight, block_.dtype_of(weight)));
  const Expr flops = Expr(2) * dims.b * dims.s * block_.tensor(weight).elements();
  block_.emit(std::move(op), {flops, flops});
  return out;
}

/// Qwen2VLVisionRotaryEmbedding: angles of rows, then of columns, and both a second time.
std::array<TensorId, 2> PackedPatches::rotary_tables(TensorId positions) {
  const Expr all = context_.dims.b * context_.dims.s;
  const Expr quarter = context_.dims.d / Expr(4);
  const auto made = [&](OpKind kind, std::string_view name, std::vector<TensorId> of,
                        const Expr& channels) {
    return compute(block_, kind, of, {{kPatchTables, name}, {all, channels}, DType::fp32});
  };
  Frame function(block_);
  const TensorId given = function.local(made(OpKind::cast, "positions", {positions}, Expr(2)));
  const TensorId angles =
      function.local(made(OpKind::rotary, "angles", {given}, Expr(2) * quarter));
  std::array<TensorId, 2> scaled{};
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const TensorId raw =
        made(OpKind::activation, i == 0 ? "cosines" : "sines", {angles}, Expr(2) * quarter);
    scaled[i] =
        made(OpKind::scale, i == 0 ? "scaled cosines" : "scaled sines", {raw}, Expr(2) * quarter);
  }
  std::array<TensorId, 2> tables{};
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const TensorId half = made(OpKind::concatenate, i == 0 ? "cos of both" : "sin of both",
                               {scaled[i]}, Expr(2) * quarter);
    tables[i] =
        made(OpKind::concatenate, i == 0 ? "cos" : "sin", {half, scaled[i]}, Expr(4) * quarter);
  }
  return tables;
}

TensorId rows_by_host(BlockBuilder& block, Place place, TensorId x, const HostRows& rows) {
  const TensorId out = block.make(place, rows.shape, block.dtype_of(x));
  Op op;
  op.kind = OpKind::copy;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {out};
  op.forward_scratch = {scratch(block, {place.op, "indices"}, {rows.count}, DType::int64)};
  KernelLaunch sum;
  sum.kind = KernelLaunch::Kind::host_index_sum;
  sum.outer = sum.reduced = rows.count;
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  backward.launch(std::move(sum));
  block.emit(std::move(op));
  return out;
}

}  // namespace memest
