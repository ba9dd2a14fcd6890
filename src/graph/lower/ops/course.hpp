// One call of Python's that runs many kernels: what it makes and drops, in order.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/ops/block_builder.hpp"

namespace memest {

/// Allocations, frees and launches in the order in which a function of Python's makes them.
class Course {
 public:
  using Made = std::uint8_t;

  /// As many elements as `like` has.
  Made make(std::string_view name, TensorId like, DType dtype);
  void drop(Made made) { add(StepKind::free, made); }
  void launch(KernelLaunch kernel);
  /// A product of the library's runs, which asks for its workspace.
  void run_product() { add(StepKind::product, kNoTensor); }
  void send(Message message) { messages_.push_back(std::move(message)); }
  /// The call that the following steps belong to.
  void enter(StepOf of) { of_ = of; }

  /// As the forward of `op`, whose outputs with a storage of their own are `outs`, in order.
  void write_forward(BlockBuilder& block, Op& op, const std::vector<Made>& outs) &&;
  void write_backward(Op& op) &&;

 private:
  static constexpr Made kNoTensor = 255;
  struct Temporary {
    std::string_view name;
    TensorId like;
    DType dtype;
  };
  void add(StepKind kind, Made made) { steps_.push_back({kind, made, of_}); }

  StepOf of_ = StepOf::result;
  std::vector<Temporary> made_;
  std::vector<Step> steps_;
  std::vector<KernelLaunch> launches_;
  std::vector<Message> messages_;
};

}  // namespace memest
