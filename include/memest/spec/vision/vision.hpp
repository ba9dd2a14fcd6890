// The part of a multimodal model that makes tokens of images: a tower of encoder layers over
// patches, and a projector to the decoder's width. The decoder reads them in place of its own
// embeddings, so an image's tokens count in the sequence's length.
#pragma once

#include <cstdint>
#include <string>

#include "memest/spec/decoder.hpp"

namespace memest {

/// A square image cut into square patches, each one product.
struct PatchEmbedding {
  std::int64_t side = 0;   ///< of the image, in pixels
  std::int64_t patch = 0;  ///< of a patch
  std::int64_t channels = 3;
  bool bias = false;
  bool class_token = false;  ///< stands before the patches (CLIP)
  bool operator==(const PatchEmbedding&) const = default;

  /// Patches along a side of the image.
  [[nodiscard]] std::int64_t grid() const { return side / patch; }
  /// Positions that the tower's layers see of an image.
  [[nodiscard]] std::int64_t positions() const { return grid() * grid() + (class_token ? 1 : 0); }
};

struct VisionTower {
  std::string model_type;  ///< whose habits its layers have: "clip_vision_model"
  PatchEmbedding patches;
  DecoderSpec encoder;        ///< its layers, which see all positions; without a head
  bool norm_before = false;   ///< a norm before the layers (CLIP)
  std::int64_t used = 0;      ///< layers that the projector's input comes from; the others run too
  bool drops_class = false;   ///< the projector reads the patches alone
  bool reads_normed = false;  ///< the projector reads what the tower's last norm makes
  bool operator==(const VisionTower&) const = default;
};

/// How the tower's positions become the decoder's tokens.
enum class ProjectorKind : std::uint8_t {
  two_layers,  ///< linear, activation, linear (LLaVA)
  pooled       ///< mean of squares of patches, RMS norm, a product (Gemma 3)
};

struct Projector {
  ProjectorKind kind = ProjectorKind::two_layers;
  ActivationFunction activation = ActivationFunction::gelu;
  bool bias = true;
  std::int64_t pool = 1;  ///< patches along a side of a square of which the mean is taken
  bool operator==(const Projector&) const = default;
};

/// Parts without gradients of their own (requires_grad_(False)).
struct FrozenParts {
  bool tower = false;
  bool projector = false;
  bool decoder = false;
  bool operator==(const FrozenParts&) const = default;
};

struct VisionPart {
  VisionTower tower;
  Projector projector;
  std::int64_t images = 0;  ///< of each sequence (`training.images`); 0: not said
  FrozenParts frozen = {};  ///< `training.freeze`
  bool operator==(const VisionPart&) const = default;

  /// Tokens that an image takes of a sequence.
  [[nodiscard]] std::int64_t tokens_of_image() const {
    const std::int64_t side = tower.patches.grid() / projector.pool;
    const bool keeps_class = tower.patches.class_token && !tower.drops_class;
    return side * side + (keeps_class ? 1 : 0);
  }
};

}  // namespace memest
