// Shared by layer and RMS normalization, with their forward: a row in registers, its mean (of layer
// normalization alone) and the root of its mean square from that.
#pragma once

#include "kernels/device/row.cuh"

namespace memest::kernels {

enum class Norm { layer, rms };

/// A call's operands, one after the other.
class OperandsInTurn {
 public:
  explicit OperandsInTurn(const Call& call) : call_(call) {}

  template <class T>
  T* as() {
    return call_.operand<T>(next_++);
  }

 private:
  const Call& call_;
  int next_ = 0;
};

template <class T>
struct NormForward {
  RowShape shape;
  float epsilon = 0;
  const T* x = nullptr;
  const T* gamma = nullptr;
  const T* beta = nullptr;  ///< null for RMS normalization
  T* y = nullptr;
  float* mean = nullptr;  ///< null for RMS normalization
  float* rstd = nullptr;
};

template <class T, Norm norm>
__global__ void __launch_bounds__(kMostThreads) norm_forward(NormForward<T> call) {
  const RowPlace place(call.shape, kLanes<T>);
  const std::int64_t begin = place.row * call.shape.columns;
  const Rows<T, 1> row({call.x + begin}, place.extent);
  const float columns = static_cast<float>(call.shape.columns);
  float mean = 0;
  if constexpr (norm == Norm::layer) {
    row.each_element([&](const float(&value)[1]) { mean += value[0]; });
    mean = reduce_row<Sum>(mean) / columns;
  }
  float squares = 0;  // of what is left without the mean: a second pass over registers
  row.each_element(
      [&](const float(&value)[1]) { squares += (value[0] - mean) * (value[0] - mean); });
  const float rstd = rsqrtf(reduce_row<Sum>(squares) / columns + call.epsilon);
  row.each([&](int first, const Vector<T>(&vectors)[1]) {
    const auto gamma = load<kLanes<T>, Reuse::soon>(call.gamma, first, place.extent);
    Vector<T> beta;
    if constexpr (norm == Norm::layer) {
      beta = load<kLanes<T>, Reuse::soon>(call.beta, first, place.extent);
    }
    Vector<T> result;
#pragma unroll
    for (int e = 0; e < kLanes<T>; ++e) {
      result.set(e, (vectors[0][e] - mean) * rstd * gamma[e] + beta[e]);
    }
    store(call.y + begin, first, place.extent, result);
  });
  if (threadIdx.x == 0 && place.is_present()) {
    if constexpr (norm == Norm::layer) call.mean[place.row] = mean;
    call.rstd[place.row] = rstd;
  }
}

/// Operands in the order of the op's description.
template <Norm norm, class T>
void launch_norm_forward_of(const Call& call, float epsilon) {
  OperandsInTurn next(call);
  NormForward<T> made{.shape = row_shape(call),
                      .epsilon = epsilon,
                      .x = next.as<const T>(),
                      .gamma = next.as<const T>()};
  if (norm == Norm::layer) made.beta = next.as<const T>();
  made.y = next.as<T>();
  if (norm == Norm::layer) made.mean = next.as<float>();
  made.rstd = next.as<float>();
  launch(norm_forward<T, norm>, row_grid<T>(made.shape), call.stream, made);
}

template <Norm norm>
void launch_norm_forward(const Call& call, float epsilon) {
  call.dtype == DType::bf16 ? launch_norm_forward_of<norm, Bf16>(call, epsilon)
                            : launch_norm_forward_of<norm, float>(call, epsilon);
}

}  // namespace memest::kernels
