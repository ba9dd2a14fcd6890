// A plain list of layers, as torch.nn has them. Its input is micro_batch · seq_len rows of
// features, or micro_batch images of channels × height × width.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "memest/spec/decoder.hpp"

namespace memest {

/// Height and width: of an image, a kernel, a stride.
struct Sides {
  std::int64_t height = 1;
  std::int64_t width = 1;

  friend bool operator==(const Sides&, const Sides&) = default;
};

/// A layer's result, which the next takes: rows of `channels` features, or images where they have
/// sides.
struct Features {
  std::int64_t channels = 0;  ///< 0: not known
  std::optional<Sides> sides = {};

  friend bool operator==(const Features&, const Features&) = default;
};

struct LinearLayer {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;

  friend bool operator==(const LinearLayer&, const LinearLayer&) = default;
};
struct ActivationLayer {
  ActivationFunction function = ActivationFunction::relu;
  bool in_place = false;

  friend bool operator==(const ActivationLayer&, const ActivationLayer&) = default;
};
struct NormLayer {
  NormKind kind = NormKind::layernorm;
  std::int64_t size = 0;
  bool bias = true;

  friend bool operator==(const NormLayer&, const NormLayer&) = default;
};
struct SoftmaxLayer {
  friend bool operator==(const SoftmaxLayer&, const SoftmaxLayer&) = default;
};
struct DropoutLayer {
  double probability = 0.5;
  bool in_place = false;

  friend bool operator==(const DropoutLayer&, const DropoutLayer&) = default;
};
struct EmbeddingLayer {
  std::int64_t rows = 0;
  std::int64_t size = 0;

  friend bool operator==(const EmbeddingLayer&, const EmbeddingLayer&) = default;
};

/// torch.nn.Conv2d, or ConvTranspose2d.
struct ConvolutionLayer {
  std::int64_t in = 0;
  std::int64_t out = 0;
  Sides kernel;
  Sides stride;
  Sides padding = {0, 0};
  Sides dilation;
  std::int64_t groups = 1;
  bool bias = true;
  bool transposed = false;
  Sides output_padding = {0, 0};  ///< transposed alone

  friend bool operator==(const ConvolutionLayer&, const ConvolutionLayer&) = default;
};
/// torch.nn.BatchNorm2d.
struct BatchNormLayer {
  std::int64_t size = 0;

  friend bool operator==(const BatchNormLayer&, const BatchNormLayer&) = default;
};
enum class Pooling : std::uint8_t { maximum, average };
/// torch.nn.MaxPool2d, AvgPool2d.
struct PoolLayer {
  Pooling kind = Pooling::maximum;
  Sides kernel;
  Sides stride;
  Sides padding = {0, 0};
  bool ceil = false;  ///< a window that begins inside counts, though it ends outside

  friend bool operator==(const PoolLayer&, const PoolLayer&) = default;
};
/// torch.nn.AdaptiveAvgPool2d, AdaptiveMaxPool2d.
struct AdaptivePoolLayer {
  Pooling kind = Pooling::average;
  Sides size;

  friend bool operator==(const AdaptivePoolLayer&, const AdaptivePoolLayer&) = default;
};
/// Images as rows of channels · height · width features.
struct FlattenLayer {
  friend bool operator==(const FlattenLayer&, const FlattenLayer&) = default;
};

struct PlainLayer;

/// body(x) + shortcut(x), in this order; without layers the shortcut is x itself.
struct ResidualLayer {
  std::vector<PlainLayer> body;
  std::vector<PlainLayer> shortcut;
  /// How the program writes the sum: `out += identity`, or `x + body(x)`.
  bool in_place = false;

  friend bool operator==(const ResidualLayer& left, const ResidualLayer& right);
};
/// The branches' results, joined along the channels, and what follows while they are still named; a
/// branch without layers is x itself.
struct ConcatLayer {
  std::vector<std::vector<PlainLayer>> branches;
  std::vector<PlainLayer> then;

  friend bool operator==(const ConcatLayer& left, const ConcatLayer& right);
};
/// Each round reads the input and the results of all rounds before, joined along the channels; the
/// answer is all of them (DenseNet's blocks).
struct DenseLayer {
  std::vector<std::vector<PlainLayer>> rounds;

  friend bool operator==(const DenseLayer& left, const DenseLayer& right);
};

using LayerKinds =
    std::variant<LinearLayer, ActivationLayer, NormLayer, SoftmaxLayer, DropoutLayer,
                 EmbeddingLayer, ConvolutionLayer, BatchNormLayer, PoolLayer, AdaptivePoolLayer,
                 FlattenLayer, ResidualLayer, ConcatLayer, DenseLayer>;
struct PlainLayer : LayerKinds {
  using LayerKinds::LayerKinds;
};

/// `repeat` times the layers of `block`, in order. A layer that stands alone is a block of one,
/// repeated once.
struct LayerBlock {
  std::int64_t repeat = 1;
  std::vector<PlainLayer> block;
};

enum class ListLoss : std::uint8_t { mean_square, cross_entropy };

struct LayerList {
  std::vector<LayerBlock> blocks;
  Features image = {};  ///< of the input, where it is images
  ListLoss loss = ListLoss::mean_square;

  [[nodiscard]] bool reads_images() const { return image.sides.has_value(); }
};

/// The features behind `layer`, which takes those that are `given`; none where the image is too
/// small for it. Composite layers are not asked. Throws OverflowError.
std::optional<Features> features_after(const PlainLayer& layer, const Features& given);

}  // namespace memest
