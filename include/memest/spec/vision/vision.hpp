// The part of a multimodal model that makes tokens of images: a tower of encoder layers over
// patches, and a projector to the decoder's width. The decoder reads them in place of its own
// embeddings, so an image's tokens count in the sequence's length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memest/spec/decoder.hpp"

namespace memest {

/// An image cut into square patches, each one product.
struct PatchEmbedding {
  std::int64_t height = 0;  ///< of the image, in pixels; 0: the config leaves it to the job, whose
                            ///< `training.image_size` has not said it
  std::int64_t width = 0;
  std::int64_t patch = 0;  ///< a patch's side
  std::int64_t channels = 3;
  std::int64_t frames = 1;  ///< that a patch is of; an image stands for all of them (Qwen2-VL)
  bool bias = false;
  bool class_token = false;  ///< stands before the patches (CLIP)
  bool operator==(const PatchEmbedding&) const = default;

  [[nodiscard]] std::int64_t rows() const { return height / patch; }
  [[nodiscard]] std::int64_t columns() const { return width / patch; }
  [[nodiscard]] std::int64_t patches() const { return rows() * columns(); }
  /// Numbers of a patch.
  [[nodiscard]] std::int64_t values() const { return channels * frames * patch * patch; }
  /// Positions that the tower's layers see of an image.
  [[nodiscard]] std::int64_t positions() const { return patches() + (class_token ? 1 : 0); }
};

/// Layers in which a patch sees those of its own window (Qwen2.5-VL).
struct VisionWindows {
  std::int64_t side = 0;           ///< patches along a side of a window; 0: there are none
  std::vector<std::int64_t> full;  ///< numbers of the layers that see a whole image all the same
  bool operator==(const VisionWindows&) const = default;
};

struct VisionTower {
  std::string model_type;  ///< whose habits its layers have: "clip_vision_model"
  PatchEmbedding patches;
  DecoderSpec encoder;        ///< its layers, which see all positions; without a head
  bool norm_before = false;   ///< a norm before the layers (CLIP)
  std::int64_t used = 0;      ///< layers that the projector's input comes from; the others run too
  bool drops_class = false;   ///< the projector reads the patches alone
  bool reads_normed = false;  ///< the projector reads what the tower's last norm makes
  bool packed = false;        ///< images of any size: all their patches are rows of one sequence
  VisionWindows windows = {};
  bool operator==(const VisionTower&) const = default;
};

/// How the tower's positions become the decoder's tokens.
enum class ProjectorKind : std::uint8_t {
  two_layers,  ///< linear, activation, linear (LLaVA)
  pooled,      ///< mean of squares of patches, RMS norm, a product (Gemma 3)
  merged       ///< norm, squares of patches as one row, linear, GELU, linear (Qwen2-VL)
};

struct Projector {
  ProjectorKind kind = ProjectorKind::two_layers;
  ActivationFunction activation = ActivationFunction::gelu;
  bool bias = true;
  std::int64_t pool = 1;  ///< patches along a side of a square that becomes one token
  bool operator==(const Projector&) const = default;
};

/// Parts without gradients of their own (requires_grad_(False)), or without an adapter beside one.
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
    const PatchEmbedding& patches = tower.patches;
    const bool keeps_class = patches.class_token && !tower.drops_class;
    return (patches.rows() / projector.pool) * (patches.columns() / projector.pool) +
           (keeps_class ? 1 : 0);
  }
};

}  // namespace memest
