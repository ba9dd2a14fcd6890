// The work of a multimodal model between looking its tokens up and its decoder's layers: a tower
// over patches of the images, a projector, and the projected patches put in the place of the image
// tokens' embeddings. Source: transformers 5.17, models/{llava,clip,gemma3,siglip}/modeling_*.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// The name by which blocks know the images.
inline constexpr std::string_view kPixelValues = "pixel values";

/// The type of each token, of the batch, and the image that it is of, as masks are made of them.
inline constexpr std::string_view kTokenTypes = "token types";
inline constexpr std::string_view kImageBlocks = "image blocks";
/// Rows and columns of each image's patches, of the batch.
inline constexpr std::string_view kImageGrids = "image grids";

/// A block, and how often it stands in a row.
struct VisionBlock {
  Block block;
  std::int64_t repeat = 1;
};

/// Why the images have no graph, or nothing.
std::optional<Unavailable> vision_refusal(const ModelSpec& model, const LoweringPolicy& policy);

/// Whether the tower's layers have a linear module that an adapter's `target` names, and adapters.
bool has_tower_module(const DecoderContext& context, std::string_view target);
/// Why a module of the tower that `target` names has no graph, or nothing.
std::optional<Unavailable> tower_adapter_refusal(const DecoderContext& context,
                                                 std::string_view target);

/// Whether a gradient comes to the text's embeddings.
bool text_wants_gradient(const DecoderContext& context);

/// The tower's policy: an image is a sequence of patches.
LoweringPolicy policy_of_tower(const LoweringPolicy& policy, const VisionPart& vision);

/// The tower's context in the decoder's program; `policy` is the tower's, and outlives it.
DecoderContext context_of_tower(const DecoderContext& decoder, const LoweringPolicy& policy);

/// The tower and the projector behind it, which answers [images · tokens of one, h].
std::vector<VisionBlock> tower_blocks(const DecoderContext& context);

/// Embeddings of text and images as one sequence, and what the decoder makes before its layers.
Block merge_block(const DecoderContext& context, bool images_want_gradient);

/// The tower's positions as the decoder's tokens; `x` is [images, positions, width].
TensorId project(BlockBuilder& block, const DecoderContext& context, TensorId x);
/// The images' tokens, [images, tokens, h], in one row.
TensorId image_row(BlockBuilder& block, const DecoderContext& context, TensorId x);

/// Masks of Gemma 3, by which the tokens of an image see one another
/// (create_masks_for_vision_model).
void write_block_masks(BlockBuilder& block, const DecoderContext& context);

/// Puts numbers in the place of the letters of a block that is written in the decoder's, of which
/// the tower has its own: b is the images of as many sequences, s an image's positions. Every patch
/// sees all of its image, or of its window.
void write_in_numbers(Block& block, const VisionPart& vision);

}  // namespace memest
