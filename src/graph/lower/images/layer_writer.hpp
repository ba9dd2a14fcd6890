// Writes the layers of a list, one after another and branch by branch, into one block.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/lower/ops/block_builder.hpp"
#include "memest/graph/lower.hpp"
#include "memest/spec/layers.hpp"

namespace memest {

/// The tensor that one block hands to the next.
struct LayerStream {
  Features features;
  DType dtype = DType::bf16;
  bool needs_gradient = false;
  bool kept = false;    ///< the last op keeps it already
  bool images = false;  ///< the network reads images, whose rows have no sequence

  friend bool operator==(const LayerStream&, const LayerStream&) = default;
};

class ListWriter {
 public:
  /// Both outlive the writer.
  ListWriter(const LayerStream& stream, const LoweringPolicy& policy);

  void write(const PlainLayer& layer);
  /// The mean square of what came last, or its cross-entropy.
  void write_loss(ListLoss loss);

  [[nodiscard]] LayerStream stream() const;
  [[nodiscard]] bool empty() { return block_.ops().empty(); }
  /// The part of the block that is not known, in words; empty where all is. Called before take().
  [[nodiscard]] std::string_view unknown();
  [[nodiscard]] Block take(bool checkpointable) &&;

 private:
  void write(const LinearLayer& layer);
  void write(const ActivationLayer& layer);
  void write(const NormLayer& layer);
  void write(const SoftmaxLayer& layer);
  void write(const DropoutLayer& layer);
  void write(const EmbeddingLayer& layer);
  void write(const ConvolutionLayer& layer);
  void write(const BatchNormLayer& layer);
  void write(const PoolLayer& layer);
  void write(const AdaptivePoolLayer& layer);
  void write(const FlattenLayer& layer);
  void write(const ResidualLayer& layer);
  void write(const ConcatLayer& layer);
  void write(const DenseLayer& layer);

  void write_mean_square();
  void write_cross_entropy();
  /// The layers' answer to `given`.
  TensorId way(const std::vector<PlainLayer>& layers, TensorId given, const Features& features);
  void join(const std::vector<TensorId>& parts, std::int64_t channels);
  TensorId dropped_in_place();
  TensorId overwritten();
  TensorId rewritten(OpKind kind, std::string_view name, TensorId kept);
  [[nodiscard]] Shape rows() const;
  [[nodiscard]] Shape shape() const;
  /// The features behind the layer, given the image that came last.
  [[nodiscard]] Features after(const PlainLayer& layer) const;

  LayerStream stream_;
  const LoweringPolicy& policy_;
  BlockBuilder block_;
  TensorId x_ = 0;
  bool kept_ = false;
};

}  // namespace memest
