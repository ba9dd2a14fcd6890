// Kernels that make each element of their results from the same element of their inputs. A thread
// loads several vectors before it uses the first; blocks are as many as the array asks for.
#pragma once

#include "kernels/device/vector.cuh"

namespace memest::kernels {

inline constexpr int kMapThreads = 256;

/// `Op` has kWidth, the elements of a vector; kInFlight, the vectors that a thread loads at once;
/// and load(first), store(first, loaded) at an element that is a multiple of the width.
template <class Op>
__global__ void __launch_bounds__(kMapThreads) map_kernel(Op op, std::int64_t count) {
  constexpr std::int64_t kStep = std::int64_t{kMapThreads} * Op::kWidth;
  const std::int64_t first =
      std::int64_t{blockIdx.x} * kStep * Op::kInFlight + std::int64_t{threadIdx.x} * Op::kWidth;
  typename Op::Loaded loaded[Op::kInFlight];
#pragma unroll
  for (int i = 0; i < Op::kInFlight; ++i) {
    if (first + i * kStep < count) loaded[i] = op.load(first + i * kStep);
  }
#pragma unroll
  for (int i = 0; i < Op::kInFlight; ++i) {
    if (first + i * kStep < count) op.store(first + i * kStep, loaded[i]);
  }
}

template <class Op>
void launch_map(const Op& op, std::int64_t count, Stream stream) {
  const std::int64_t block = std::int64_t{kMapThreads} * Op::kWidth * Op::kInFlight;
  launch(map_kernel<Op>, {.blocks = divided_up(count, block), .x = kMapThreads}, stream, op, count);
}
template <class Op>
void launch_map(const Op& op, const Call& call) {
  launch_map(op, call.elements(), call.stream);
}

/// An Op from a function of one element: `Function::of(in, out)` with arrays of floats. Operands of
/// the call are the inputs, then the outputs.
template <class In, class Out, class Function>
struct Elementwise {
  static constexpr int kInputs = Function::kInputs;
  static constexpr int kOutputs = Function::kOutputs;
  static constexpr int kWidth = kLanes<In> > kLanes<Out> ? kLanes<In> : kLanes<Out>;
  static constexpr int kInFlight = kInputs > 2 ? 2 : 4;

  struct Loaded {
    Vector<In, kWidth> in[kInputs];
  };

  const In* in[kInputs];
  Out* out[kOutputs];
  Extent<std::int64_t> extent;

  explicit Elementwise(const Call& call) : extent{.count = call.elements()} {
    for (int i = 0; i < kInputs; ++i) in[i] = call.operand<const In>(i);
    for (int i = 0; i < kOutputs; ++i) out[i] = call.operand<Out>(kInputs + i);
  }

  __device__ Loaded load(std::int64_t first) const {
    Loaded loaded;
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      loaded.in[i] = memest::kernels::load<kWidth>(in[i], first, extent);
    }
    return loaded;
  }
  __device__ void store(std::int64_t first, const Loaded& loaded) const {
    Vector<Out, kWidth> results[kOutputs];
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      float from[kInputs];
      float to[kOutputs];
#pragma unroll
      for (int i = 0; i < kInputs; ++i) from[i] = loaded.in[i][e];
      Function::of(from, to);
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) results[i].set(e, to[i]);
    }
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      memest::kernels::store(out[i], first, extent, results[i]);
    }
  }
};

/// In the call's type.
template <class Function>
void launch_elementwise(const Call& call) {
  if (call.dtype == DType::bf16) {
    launch_map(Elementwise<Bf16, Bf16, Function>(call), call);
  } else {
    launch_map(Elementwise<float, float, Function>(call), call);
  }
}

}  // namespace memest::kernels
