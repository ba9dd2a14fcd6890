#include "kernels/device/norm_backward.cuh"
#include "kernels/layernorm.hpp"

namespace memest::kernels {
namespace {

template <class T>
struct Arguments {
  RowShape shape;
  const T* x;
  const T* gamma;
  const T* beta;
  T* y;
  float* mean;
  float* rstd;
};

template <class T>
__global__ void __launch_bounds__(kMostThreads) layernorm(Arguments<T> call) {
  const RowPlace place(call.shape, kLanes<T>);
  const std::int64_t begin = place.row * call.shape.columns;
  const Rows<T, 1> row({call.x + begin}, place.extent);
  const float columns = static_cast<float>(call.shape.columns);
  float mean = 0;
  row.each_element([&](const float(&value)[1]) { mean += value[0]; });
  mean = reduce_row<Sum>(mean) / columns;
  float squares = 0;  // of what is left without the mean: a second pass over registers
  row.each_element(
      [&](const float(&value)[1]) { squares += (value[0] - mean) * (value[0] - mean); });
  const float rstd = rsqrtf(reduce_row<Sum>(squares) / columns + kLayerNormEpsilon);
  row.each([&](int first, const Vector<T>(&vectors)[1]) {
    const auto gamma = load<kLanes<T>, Reuse::soon>(call.gamma, first, place.extent);
    const auto beta = load<kLanes<T>, Reuse::soon>(call.beta, first, place.extent);
    Vector<T> result;
#pragma unroll
    for (int e = 0; e < kLanes<T>; ++e) {
      result.set(e, (vectors[0][e] - mean) * rstd * gamma[e] + beta[e]);
    }
    store(call.y + begin, first, place.extent, result);
  });
  if (threadIdx.x == 0 && place.is_present()) {
    call.mean[place.row] = mean;
    call.rstd[place.row] = rstd;
  }
}

template <class T>
void launch_forward(const Call& call) {
  launch(layernorm<T>, row_grid<T>(row_shape(call)), call.stream,
         Arguments<T>{.shape = row_shape(call),
                      .x = call.operand<const T>(0),
                      .gamma = call.operand<const T>(1),
                      .beta = call.operand<const T>(2),
                      .y = call.operand<T>(3),
                      .mean = call.operand<float>(4),
                      .rstd = call.operand<float>(5)});
}
template <class T>
void launch_backward(const Call& call) {
  launch_norm_backward<Norm::layer>(NormBackward<T>{.shape = row_shape(call),
                                                    .x = call.operand<const T>(0),
                                                    .gamma = call.operand<const T>(1),
                                                    .mean = call.operand<const float>(2),
                                                    .rstd = call.operand<const float>(3),
                                                    .dy = call.operand<const T>(4),
                                                    .dx = call.operand<T>(5),
                                                    .dgamma = call.operand<T>(6),
                                                    .dbeta = call.operand<T>(7),
                                                    .partials = call.operand<float>(8)},
                                    call.stream);
}

}  // namespace

void launch_layernorm(const Call& call) {
  call.dtype == DType::bf16 ? launch_forward<Bf16>(call) : launch_forward<float>(call);
}
void launch_layernorm_backward(const Call& call) {
  call.dtype == DType::bf16 ? launch_backward<Bf16>(call) : launch_backward<float>(call);
}

}  // namespace memest::kernels
