// The tables of pointers and sizes that PyTorch's copies of many pieces send to the device before
// they run (aten/src/ATen/native/cuda/TensorShape.cu).
#pragma once

#include <cstdint>
#include <vector>

namespace memest {

/// The pieces of a flat tensor, one a parameter, of one rank's share.
class CopyPieces {
 public:
  void add(std::int64_t bytes) { pieces_.push_back(bytes); }
  /// split_with_sizes_copy, out of an all-gather's output from `ranks` ranks, on a GPU of so many
  /// multiprocessors.
  [[nodiscard]] std::int64_t bytes_of_split_copy(std::int64_t ranks,
                                                 std::int64_t multiprocessors) const;
  /// _chunk_cat, into the input of a reduce-scatter.
  [[nodiscard]] std::int64_t bytes_of_chunk_cat() const;

 private:
  [[nodiscard]] std::int64_t blocks(std::int64_t rounds) const;
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(pieces_.size()); }

  std::vector<std::int64_t> pieces_;
};

}  // namespace memest
