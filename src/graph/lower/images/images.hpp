// Operations on images, [micro_batch, channels, height, width] in eager PyTorch: convolution,
// pooling, batch normalization. Kernels are cuDNN's, or PyTorch's own where it prefers them.
#pragma once

#include <string_view>

#include "graph/lower/ops/block_builder.hpp"
#include "memest/spec/layers.hpp"

namespace memest {

/// A layer, and what it makes of an image.
template <class Layer>
struct ImageLayer {
  const Layer& layer;
  Features after;
};

/// [b, channels, height, width], or [b, channels] without sides.
Shape shape_of(const Features& features);

TensorId convolution(BlockBuilder& block, const ImageLayer<ConvolutionLayer>& given, TensorId x);
TensorId batch_norm(BlockBuilder& block, const BatchNormLayer& layer, TensorId x);
TensorId pool(BlockBuilder& block, const ImageLayer<PoolLayer>& given, TensorId x);
TensorId adaptive_pool(BlockBuilder& block, const ImageLayer<AdaptivePoolLayer>& given, TensorId x);

/// Makes ops whose results one concatenation alone reads copy their gradients, parts of that of the
/// joint, where their kernels take no such part. Names what is not known; empty where all is.
std::string_view copy_joint_gradients(BlockBuilder& block);

}  // namespace memest
