// One call of Python's that runs many kernels: what it makes and drops, in order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/lower/ops/block_builder.hpp"

namespace memest {

/// Allocations, frees and launches in the order in which a function of Python's makes them.
class Course {
 public:
  using Made = std::uint8_t;

  /// As many elements as `like` has.
  Made make(std::string_view name, TensorId like, DType dtype);
  void drop(Made made) { steps_.push_back({StepKind::free, made}); }
  void launch(KernelLaunch kernel);
  /// A product of the library's runs, which asks for its workspace.
  void run_product() { steps_.push_back({StepKind::product, kNoTensor}); }

  /// As the forward of `op`, whose one output is `out`.
  void write_forward(BlockBuilder& block, Op& op, Made out) &&;
  void write_backward(Op& op) &&;

 private:
  static constexpr Made kNoTensor = 255;
  struct Temporary {
    std::string_view name;
    TensorId like;
    DType dtype;
  };
  std::vector<Temporary> made_;
  std::vector<Step> steps_;
  std::vector<KernelLaunch> launches_;
};

}  // namespace memest
