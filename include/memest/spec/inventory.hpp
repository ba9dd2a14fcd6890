// Writes an inventory tensor by tensor. Tensors that differ in nothing but their place are one row
// with a count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/model.hpp"
#include "memest/spec/parallel/parallelism.hpp"

namespace memest {

/// A weight matrix of torch.nn.Linear, [out, in], and whether a bias of `out` goes with it.
struct Projection {
  std::int64_t out = 0;
  std::int64_t in = 0;
  bool bias = false;
  ParameterModule module = ParameterModule::other;
  bool te_linear = false;  ///< of the weight
};

class InventoryBuilder {
 public:
  /// Starts a stretch of the model that stands `times` times in a row: what is added from here on
  /// is what one of them holds, in the order of its placement. An inventory without stretches has
  /// no placement.
  void repeat(std::int64_t times);
  /// As above, for one layer.
  void repeat_layer(std::int64_t times);
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
  template <class Tensor>
  void add_to(std::vector<Tensor>& rows, Tensor tensor);

  Inventory inventory_;
};

/// The module of a tensor of the state dict: "mlp.up_proj" of "mlp.up_proj.weight".
std::string_view module_of(std::string_view tensor);

/// Elements of the weights that Transformer Engine multiplies in the job's recipe (TeLinears).
/// Throws OverflowError.
std::int64_t te_linear_elements(const Inventory& inventory);
/// As above, of those that are trained. Throws OverflowError.
std::int64_t trained_te_elements(const Inventory& inventory);
/// Elements of the weights that are kept as codes. Throws OverflowError.
std::int64_t coded_elements(const Inventory& inventory);

/// Cuts every parameter to the first, and largest, of equal shares of its rows among the ranks that
/// shard it.
Inventory sharded_by_rows(Inventory inventory, const Parallelism& parallelism);

/// One tensor of a model: the `copy`-th of its row, from 0.
struct PlacedTensor {
  bool buffer = false;
  std::size_t row = 0;
  std::int64_t copy = 0;
  std::int64_t layer = 0;  ///< from 1 on; 0: outside the layers
};

/// Every tensor of `inventory` in the order of its placement; row by row, parameters first, where
/// that is not known. Without the buffers it is the order of Module.parameters() as well, but for a
/// module that has both parameters and submodules (GPT-OSS' attention sinks).
std::vector<PlacedTensor> tensors_in_order(const Inventory& inventory);

}  // namespace memest
