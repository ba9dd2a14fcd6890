// One call of attention as cuDNN wants it described: a graph of one operation, and the plan that
// the library makes of it.
#pragma once

#include <cudnn_frontend.h>

#include "kernels/call.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/units/quantity.hpp"

namespace memest::kernels {

class AttentionPlan {
 public:
  /// Asks the library's heuristic; compiles nothing.
  AttentionPlan(cudnnHandle_t handle, const AttentionShape& shape);

  [[nodiscard]] bool is_supported() const { return answer_.is_good(); }
  /// The first time, compiles. Throws EnvironmentError with the library's words.
  void build();
  /// Once built.
  [[nodiscard]] Bytes workspace() const;
  /// Once built. Operands in the order of attention.hpp.
  void enqueue(void* const* operands, void* workspace, Stream stream) const;

 private:
  cudnnHandle_t handle_;
  int operands_;
  cudnn_frontend::graph::Graph graph_;
  cudnn_frontend::error_t answer_;
  bool is_built_ = false;
};

}  // namespace memest::kernels
