// How torchtune's TransformerDecoder comes to the device in a recipe of one GPU (torchtune 0.6.1,
// models/*/_component_builders.py under `with self._device`): layers before the embedding, LoRA's
// matrices in their layers, tables of rotations; then the checkpoint's weights.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "memory/torchtune/rotations.hpp"

namespace memest {

class TorchtuneConstruction {
 public:
  explicit TorchtuneConstruction(const TorchtuneParts& parts);

  /// Makes parameters and buffers, and loads what the codes stand for.
  void write();

 private:
  void make_layer(std::span<const std::size_t> parameters);
  std::size_t make_coded(std::span<const std::size_t> parameters);
  void make_rest();
  void load();
  void initialize_magnitudes();
  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const;

  const Inventory& inventory_;
  const ModelTensors& tensors_;
  ModelPlacement& placement_;
  TorchtuneRotations rotations_;
  bool has_magnitudes_;
};

}  // namespace memest
