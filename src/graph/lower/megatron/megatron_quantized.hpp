// Products of Transformer Engine's layers in 8 and 4 bits (2.11: module/linear.py,
// layernorm_linear.py, grouped_linear.py).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/lower/megatron/megatron.hpp"

namespace memest {

/// A product, or one of each expert, between what a rank is given and what it multiplies.
struct QuantizedProduct {
  std::string_view name;
  std::vector<TensorId> weights;
  Expr weight_elements;  ///< of all of them
  Expr input;            ///< elements that are multiplied, of all ranks where they are gathered
  Expr output;           ///< and of the product
  bool gathers_input = false;
  bool gathers_gradient = false;  ///< of the output
  bool input_is_kept = false;     ///< what it reads is kept in 16 bits, or thrown away, by others
  bool behind_norm = false;       ///< a part of LayerNormLinear
  bool trained = true;            ///< the weights want gradients
  bool returns_norm = false;      ///< LayerNormLinear answers what it multiplies, in 16 bits
  bool gathered = false;          ///< and has gathered that before it casts
  bool grouped = false;           ///< of GroupedLinear
};

/// Casts of a product's operands, and the copies that they are.
class ProductCasts {
 public:
  ProductCasts(const MegatronContext& context, QuantizedProduct product);

  /// Writes what `op` keeps of `x`, how it multiplies and what its casts move. Its inputs and first
  /// output are there.
  void write_forward(BlockBuilder& block, TensorId x, Op& op) const;
  /// The gradient of the output cast, and what is gathered, or cast again, of the input; dropped by
  /// end().
  void begin(BlockBuilder& block, BackwardWriter& backward);
  void end(BackwardWriter& backward) const;

  /// Bytes of all that is multiplied of the input, along rows or columns, as ranks gather it.
  [[nodiscard]] Expr gathered_input() const { return one(product_.input); }
  /// And of the output's gradient.
  [[nodiscard]] Expr gathered_gradient() const;

 private:
  /// Bytes of so many elements along rows or columns, and of all copies along both.
  [[nodiscard]] Expr one(const Expr& elements) const;
  [[nodiscard]] Expr both(const Expr& elements) const;
  [[nodiscard]] Expr cast(const Expr& elements, bool by_columns) const;
  [[nodiscard]] Expr cast_behind_norm(const Expr& elements, bool by_columns) const;
  [[nodiscard]] Expr cast_of_input(const Expr& given) const;
  [[nodiscard]] Expr cast_of_gradient() const;
  [[nodiscard]] Expr cast_of_weight() const;
  [[nodiscard]] Expr transposed(const Expr& elements) const;
  [[nodiscard]] Expr own(const Expr& elements, bool gathered) const;
  [[nodiscard]] bool keeps_given() const;
  [[nodiscard]] bool casts_columns_of_input() const;
  [[nodiscard]] bool casts_columns_of_gradient() const;
  void keep_input(BlockBuilder& block, TensorId x, const Expr& given, Op& op) const;

  const MegatronContext& context_;
  QuantizedProduct product_;
  TeLinears linears_;
  const TeRecipeRow& row_;
  bool transposes_;  ///< a tensor with one scale is copied to be read by columns
  std::vector<BackwardWriter::Made> made_;
};

/// TELinear's and TELayerNormColumnParallelLinear's product, by columns or rows, of a weight that
/// is trained or frozen.
TensorId quantized_product(BlockBuilder& block, const MegatronContext& context,
                           const ParallelProduct& product, TensorId x);

/// Why the job's products cannot run in the type that it asks for; none where they can.
std::optional<Unavailable> quantized_refusal(const MegatronContext& context);

}  // namespace memest
