// Images written out for a product (im2col): a convolution of k × k taps over a window's pixels is
// a matrix product once every window's pixels stand in a column, k² · channels for each pixel of
// the output. A convolution's library asks for a share of it, or for nothing where its kernels
// gather the pixels.
#pragma once

#include <cstdint>

#include "memest/spec/job.hpp"
#include "memest/spec/layers.hpp"

namespace memest {

/// Elements of the columns of one image.
struct LoweredImages {
  std::int64_t all = 0;      ///< of every convolution at once
  std::int64_t largest = 0;  ///< of the convolution that has most

  friend bool operator==(const LoweredImages&, const LoweredImages&) = default;
};

/// Throws OverflowError.
LoweredImages lowered_images(const LayerList& list);

/// The most that a convolution of the job is taken to ask cuDNN for beside what is known: its
/// plans' workspaces are not known without a GPU; the largest lowered micro-batch in the compute
/// type. Zero without convolutions. Throws OverflowError.
Bytes most_convolution_workspace(const Job& job);

}  // namespace memest
