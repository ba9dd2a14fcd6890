// Codes of 4 bits in a model that FSDP2 shards (accelerate 1.15, fsdp2_prepare_model).
//
// The model is on the GPU before it is wrapped, codes and adapters. Its state dict keeps every
// whole tensor until all shares are cut; of a scale's codes it has a clone. Codes in integers are
// no parameter of FSDP2's: every rank keeps them whole. Scales stay whole always, beside the
// module.
#pragma once

#include "memory/sharding/share_cutter.hpp"

namespace memest {

/// Gives the codes of `whole` their shapes in `shares`, the inventory of what a rank keeps:
/// [elements, 1] of those that are cut, as before of those that stay whole.
void share_codes(const Inventory& whole, const Job& job, Inventory& shares);

/// Bytes that a rank keeps of the codes and scales that stand for the parameter.
std::int64_t stored_bytes_of_rank(const Job& job, const ParameterTensor& row);

/// As placed_weights(), but of a weight that is kept as codes these, not their scales.
std::vector<StorageId> placed_codes(const Timeline& timeline, const Inventory& inventory,
                                    const QuantizedWeights& quantized);

class CodedShares {
 public:
  CodedShares(const ShareCutter::Model& model, Recorder& recorder)
      : model_(model), recorder_(recorder) {}

  /// Places the whole model, as on one GPU.
  void place();
  /// Cuts what FSDP2 has of it; `shares` places them.
  void cut(ModelPlacement& shares);

 private:
  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const;
  [[nodiscard]] std::vector<HeldStorage> adopt_whole();
  [[nodiscard]] HeldVector name_parameters();
  [[nodiscard]] std::vector<HeldStorage> clone_codes_of_scales();

  ShareCutter::Model model_;
  Recorder& recorder_;
};

}  // namespace memest
