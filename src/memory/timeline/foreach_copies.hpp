// The tables of pointers and sizes that PyTorch's copies of many pieces send to the device before
// they run (aten/src/ATen/native/cuda/TensorShape.cu).
#pragma once

#include <cstdint>

namespace memest {

/// The pieces of a flat tensor, one a parameter, of one rank's share.
class CopyPieces {
 public:
  void add(std::int64_t bytes);
  /// split_with_sizes_copy, out of an all-gather's output.
  [[nodiscard]] std::int64_t bytes_of_split_copy() const;
  /// _chunk_cat, into the input of a reduce-scatter.
  [[nodiscard]] std::int64_t bytes_of_chunk_cat() const;

 private:
  std::int64_t pieces_ = 0;
  std::int64_t blocks_ = 0;
};

}  // namespace memest
