#include "kernels/cross_entropy.hpp"
#include "kernels/device/row.cuh"

namespace memest::kernels {
namespace {

/// A sum of exponentials over its largest exponent, which moves while the sum is made.
struct MovingSum {
  float largest = Largest::kIdentity;
  float sum = 0;

  __device__ void rise_to(float exponent) {
    sum *= __expf(largest - exponent);
    largest = exponent;
  }
};

template <class T>
__global__ void __launch_bounds__(kUsualThreads)
    cross_entropy(RowShape shape, const T* logits, const std::int64_t* targets, float* loss,
                  float* lse) {
  const RowPlace place(shape, kLanes<T>);
  const T* begin = logits + place.row * shape.columns;
  const Rows<T, 1> row({begin}, place.extent);
  MovingSum sum;
  row.each([&](int first, const Vector<T>(&vectors)[1]) {
    float largest = sum.largest;
#pragma unroll
    for (int e = 0; e < kLanes<T>; ++e) {
      if (first + e < place.extent.count) largest = fmaxf(largest, vectors[0][e]);
    }
    sum.rise_to(largest);
#pragma unroll
    for (int e = 0; e < kLanes<T>; ++e) {
      if (first + e < place.extent.count) sum.sum += __expf(vectors[0][e] - largest);
    }
  });
  sum.rise_to(reduce_row<Largest>(sum.largest));
  const float whole = reduce_row<Sum>(sum.sum);
  if (threadIdx.x == 0 && place.is_present()) {
    const float result = sum.largest + __logf(whole);
    lse[place.row] = result;
    loss[place.row] = result - to_float(begin[targets[place.row]]);
  }
}

template <class T>
__global__ void __launch_bounds__(kUsualThreads)
    cross_entropy_backward(RowShape shape, const T* logits, const std::int64_t* targets,
                           const float* lse, T* dlogits) {
  const RowPlace place(shape, kLanes<T>);
  if (!place.is_present()) return;
  const std::int64_t begin = place.row * shape.columns;
  const Rows<T, 1> row({logits + begin}, place.extent);
  const float share = __fdividef(1, static_cast<float>(shape.rows));
  const float shift = lse[place.row];
  const int target = static_cast<int>(targets[place.row]);
  row.each([&](int first, const Vector<T>(&vectors)[1]) {
    Vector<T> result;
#pragma unroll
    for (int e = 0; e < kLanes<T>; ++e) {
      const float probability = __expf(vectors[0][e] - shift);
      result.set(e, (probability - (first + e == target ? 1 : 0)) * share);
    }
    store(dlogits + begin, first, place.extent, result);
  });
}

template <class T>
void launch_forward(const Call& call) {
  launch(cross_entropy<T>, row_grid<T>(row_shape(call), 1, kUsualThreads), call.stream,
         row_shape(call), call.operand<const T>(0), call.operand<const std::int64_t>(1),
         call.operand<float>(2), call.operand<float>(3));
}
template <class T>
void launch_backward(const Call& call) {
  launch(cross_entropy_backward<T>, row_grid<T>(row_shape(call), 1, kUsualThreads), call.stream,
         row_shape(call), call.operand<const T>(0), call.operand<const std::int64_t>(1),
         call.operand<const float>(2), call.operand<T>(3));
}

}  // namespace

void launch_cross_entropy(const Call& call) {
  call.dtype == DType::bf16 ? launch_forward<Bf16>(call) : launch_forward<float>(call);
}
void launch_cross_entropy_backward(const Call& call) {
  call.dtype == DType::bf16 ? launch_backward<Bf16>(call) : launch_backward<float>(call);
}

}  // namespace memest::kernels
