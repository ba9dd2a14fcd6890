// How the model of codes comes to its ranks (torchtune 0.6.1, lora_finetune_distributed.py:
// _setup_model; training/_distributed.py: load_from_full_model_state_dict): it is made and wrapped
// without storage; LoRA's matrices and the tables of rotations are made module by module, and each
// rank makes codes of every whole weight of the checkpoint, of which it keeps its rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/sharding/share_cutter.hpp"
#include "memory/torchtune/rotations.hpp"

namespace memest {

class TorchtuneShards {
 public:
  /// `cutter` cuts what is not kept as codes.
  TorchtuneShards(const TorchtuneParts& parts, ShareCutter cutter);

  void write();

 private:
  void make_adapters();
  void make_pair_of_matrices(std::size_t first);
  void load();
  HeldVector load_codes(std::size_t parameter, HeldVector before);
  void make_and_free(std::int64_t bytes);
  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const;
  [[nodiscard]] std::int64_t whole_elements(std::size_t parameter) const;

  TorchtuneParts parts_;
  ShareCutter cutter_;
  TorchtuneRotations rotations_;
  bool has_random_state_ = false;
};

}  // namespace memest
