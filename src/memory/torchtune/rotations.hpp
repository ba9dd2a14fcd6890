// Tables of rotations on the device (torchtune 0.6.1, modules/position_embeddings.py and
// models/qwen2/_positional_embeddings.py).
#pragma once

#include <cstddef>
#include <cstdint>

#include "memest/spec/job.hpp"
#include "memory/sharding/model_placement.hpp"

namespace memest {

/// The parts of a model that torchtune makes. All outlive their readers.
struct TorchtuneParts {
  const Job& job;
  const Inventory& whole;
  const Inventory& inventory;  ///< what the rank keeps of it
  const ModelTensors& tensors;
  ModelPlacement& placement;
  Recorder& recorder;
};

class TorchtuneRotations {
 public:
  explicit TorchtuneRotations(const TorchtuneParts& parts);

  /// Whether each layer has a table of its own, or all of them share one.
  [[nodiscard]] bool by_layer() const { return tensors_.buffers.size() > kBuffersOfTable; }
  /// Makes the next table.
  void make();

 private:
  static constexpr std::size_t kBuffersOfTable = 2;  // frequencies and the table itself

  void make_cache();
  HeldStorage temporary(std::int64_t elements, DType dtype);

  std::int64_t pairs_;
  std::int64_t positions_;
  const ModelTensors& tensors_;
  ModelPlacement& placement_;
  Recorder& recorder_;
  std::size_t next_buffer_ = 0;
};

}  // namespace memest
