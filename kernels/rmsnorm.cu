#include "kernels/device/norm_backward.cuh"
#include "kernels/rmsnorm.hpp"

namespace memest::kernels {
namespace {

template <class T>
struct Arguments {
  RowShape shape;
  const T* x;
  const T* gamma;
  T* y;
  float* rstd;
};

template <class T>
__global__ void __launch_bounds__(kMostThreads) rmsnorm(Arguments<T> call) {
  const RowPlace place(call.shape, kLanes<T>);
  const std::int64_t begin = place.row * call.shape.columns;
  const Rows<T, 1> row({call.x + begin}, place.extent);
  float squares = 0;
  row.each_element([&](const float(&value)[1]) { squares += value[0] * value[0]; });
  const float columns = static_cast<float>(call.shape.columns);
  const float rstd = rsqrtf(reduce_row<Sum>(squares) / columns + kRmsNormEpsilon);
  row.each([&](int first, const Vector<T>(&vectors)[1]) {
    const auto gamma = load<kLanes<T>, Reuse::soon>(call.gamma, first, place.extent);
    Vector<T> result;
#pragma unroll
    for (int e = 0; e < kLanes<T>; ++e) result.set(e, vectors[0][e] * rstd * gamma[e]);
    store(call.y + begin, first, place.extent, result);
  });
  if (threadIdx.x == 0 && place.is_present()) call.rstd[place.row] = rstd;
}

template <class T>
void launch_forward(const Call& call) {
  launch(rmsnorm<T>, row_grid<T>(row_shape(call)), call.stream,
         Arguments<T>{.shape = row_shape(call),
                      .x = call.operand<const T>(0),
                      .gamma = call.operand<const T>(1),
                      .y = call.operand<T>(2),
                      .rstd = call.operand<float>(3)});
}
template <class T>
void launch_backward(const Call& call) {
  launch_norm_backward<Norm::rms>(NormBackward<T>{.shape = row_shape(call),
                                                  .x = call.operand<const T>(0),
                                                  .gamma = call.operand<const T>(1),
                                                  .mean = nullptr,
                                                  .rstd = call.operand<const float>(2),
                                                  .dy = call.operand<const T>(3),
                                                  .dx = call.operand<T>(4),
                                                  .dgamma = call.operand<T>(5),
                                                  .dbeta = nullptr,
                                                  .partials = call.operand<float>(6)},
                                  call.stream);
}

}  // namespace

void launch_rmsnorm(const Call& call) {
  call.dtype == DType::bf16 ? launch_forward<Bf16>(call) : launch_forward<float>(call);
}
void launch_rmsnorm_backward(const Call& call) {
  call.dtype == DType::bf16 ? launch_backward<Bf16>(call) : launch_backward<float>(call);
}

}  // namespace memest::kernels
