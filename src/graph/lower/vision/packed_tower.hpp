// Qwen2-VL's and Qwen2.5-VL's tower: the patches of all images are rows of one sequence, whose
// parts attention sees one by one: an image or, in most layers of 2.5, a window of one. Source:
// transformers 5.17, models/{qwen2_vl,qwen2_5_vl}/modeling_*.py.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/lower/vision/vision.hpp"

namespace memest {

/// The names by which blocks know what the tower makes of the images' sizes.
inline constexpr std::string_view kPatchPositions = "patch positions";
inline constexpr std::string_view kImageBounds = "image bounds";
inline constexpr std::string_view kWindowBounds = "window bounds";
inline constexpr std::string_view kPatchCosines = "patch cos";
inline constexpr std::string_view kPatchSines = "patch sin";
/// The images' patches in the model's type.
inline constexpr std::string_view kTypedPixels = "pixels in type";

/// The windows of an image.
struct WindowLengths {
  std::vector<std::int64_t> lengths;  ///< patches of each
  std::int64_t padded = 0;            ///< how many they are with the empty ones around them
};
WindowLengths window_lengths(const VisionTower& tower, std::int64_t merge);

/// Rows of `x` by indices that the host has: they are copied to the device in both passes.
struct HostRows {
  Expr count;   ///< of indices, as many as rows
  Shape shape;  ///< of the result
};
TensorId rows_by_host(BlockBuilder& block, Place place, TensorId x, const HostRows& rows);

/// Writes what is made of the images' sizes before the layers, and the embedded patches.
class PackedPatches {
 public:
  /// `context` is the tower's; `images` of a micro-step.
  PackedPatches(BlockBuilder& block, const DecoderContext& context, const VisionPart& vision,
                std::int64_t images)
      : block_(block), context_(context), tower_(vision.tower), images_(images) {}

  TensorId positions();
  void bounds();
  void window_bounds(const WindowLengths& windows);
  /// Cosines and sines.
  std::array<TensorId, 2> rotary_tables(TensorId positions);
  TensorId cut(TensorId pixels);

 private:
  BlockBuilder& block_;
  const DecoderContext& context_;
  const VisionTower& tower_;
  std::int64_t images_;
};

/// As tower_blocks().
std::vector<VisionBlock> packed_tower_blocks(const DecoderContext& context);

/// Positions of text and images in three dimensions and their tables (get_rope_index).
void write_grid_positions(BlockBuilder& block, const DecoderContext& context);

}  // namespace memest
