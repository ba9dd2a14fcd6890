// Writes an inventory tensor by tensor. Tensors that differ in nothing but their place are one row
// with a count.
#pragma once

#include <cstdint>
#include <string>

#include "memest/spec/model.hpp"

namespace memest {

/// A weight matrix of torch.nn.Linear, [out, in], and whether a bias of `out` goes with it.
struct Projection {
  std::int64_t out = 0;
  std::int64_t in = 0;
  bool bias = false;
};

class InventoryBuilder {
 public:
  /// Adds `tensor`, or its count to an equal row. Throws OverflowError.
  void add(ParameterTensor tensor);
  void add(BufferTensor tensor);
  /// `name`.weight and, where the projection has one, `name`.bias.
  void projection(const std::string& name, const Projection& shape, std::int64_t count = 1);
  /// `name`.weight and `name`.bias of a normalization over `size` channels.
  void layer_norm(const std::string& name, std::int64_t size, std::int64_t count = 1);
  /// `name`.weight of a normalization over `size` channels without a bias.
  void rms_norm(const std::string& name, std::int64_t size, std::int64_t count = 1);
  /// `name`.weight of a table of `rows` vectors.
  void embedding(const std::string& name, std::int64_t rows, std::int64_t size);

  [[nodiscard]] Inventory take() &&;

 private:
  Inventory inventory_;
};

}  // namespace memest
