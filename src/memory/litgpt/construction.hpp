// How litgpt's GPT comes to the device (lightning's init_module makes it there): layers whose
// attention and feed-forward LoRA's classes make anew, and tables of rotations made for all
// positions, then for those of the sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memest/spec/job.hpp"
#include "memory/sharding/model_placement.hpp"

namespace memest {

class LitgptConstruction {
 public:
  /// All outlive this.
  struct Parts {
    const Job& job;
    const Inventory& inventory;
    const ModelTensors& tensors;
    ModelPlacement& placement;
    Recorder& recorder;
  };
  explicit LitgptConstruction(const Parts& parts);

  /// Makes parameters, then buffers.
  void write();

 private:
  struct Tables {
    HeldStorage cosines;
    HeldStorage sines;
  };

  void make_layer(const std::vector<std::size_t>& parameters);
  void place(const std::vector<std::size_t>& parameters, std::string_view module);
  std::vector<HeldVector> make_frozen(const std::vector<std::size_t>& parameters,
                                      std::string_view module);
  void make_buffers();
  Tables tables(std::int64_t positions);
  void convert(Tables& tables, std::int64_t positions);
  HeldStorage make(std::int64_t elements, DType dtype);
  /// One for each position and rotating channel.
  [[nodiscard]] std::int64_t angles_of(std::int64_t positions) const;
  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const;
  [[nodiscard]] const BufferTensor& row_of_buffer(std::size_t buffer) const;

  const DecoderSpec& decoder_;
  const TrainingSpec& training_;
  const Inventory& inventory_;
  const ModelTensors& tensors_;
  ModelPlacement& placement_;
  Recorder& recorder_;
  bool sharded_;  ///< and so made without storage, which all modules get at once
  bool adapted_;
  bool quantized_;
};

}  // namespace memest
