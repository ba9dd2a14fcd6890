#include "kernels/device/row.cuh"
#include "kernels/softmax.hpp"

namespace memest::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kMostThreads) softmax(RowShape shape, const T* x, T* y) {
  const RowPlace place(shape, kLanes<T>);
  const Rows<T, 1> row({x + place.row * shape.columns}, place.extent);
  float largest = Largest::kIdentity;
  row.each_element([&](const float(&value)[1]) { largest = fmaxf(largest, value[0]); });
  largest = reduce_row<Largest>(largest);
  float sum = 0;
  row.each_element([&](const float(&value)[1]) { sum += __expf(value[0] - largest); });
  const float share = __fdividef(1, reduce_row<Sum>(sum));
  row.each([&](int first, const Vector<T>(&vectors)[1]) {
    Vector<T> result;
#pragma unroll
    for (int e = 0; e < kLanes<T>; ++e) result.set(e, __expf(vectors[0][e] - largest) * share);
    store(y + place.row * shape.columns, first, place.extent, result);
  });
}

template <class T>
__global__ void __launch_bounds__(kMostThreads)
    softmax_backward(RowShape shape, const T* y, const T* dy, T* dx) {
  const RowPlace place(shape, kLanes<T>);
  const std::int64_t begin = place.row * shape.columns;
  const Rows<T, 2> rows({y + begin, dy + begin}, place.extent);
  float product = 0;
  rows.each_element([&](const float(&value)[2]) { product += value[0] * value[1]; });
  product = reduce_row<Sum>(product);
  rows.each([&](int first, const Vector<T>(&vectors)[2]) {
    Vector<T> result;
#pragma unroll
    for (int e = 0; e < kLanes<T>; ++e) {
      result.set(e, vectors[0][e] * (vectors[1][e] - product));
    }
    store(dx + begin, first, place.extent, result);
  });
}

template <class T>
void launch_forward(const Call& call) {
  launch(softmax<T>, row_grid<T>(row_shape(call)), call.stream, row_shape(call),
         call.operand<const T>(0), call.operand<T>(1));
}
template <class T>
void launch_backward(const Call& call) {
  launch(softmax_backward<T>, row_grid<T>(row_shape(call), 2), call.stream, row_shape(call),
         call.operand<const T>(0), call.operand<const T>(1), call.operand<T>(2));
}

}  // namespace

void launch_softmax(const Call& call) {
  call.dtype == DType::bf16 ? launch_forward<Bf16>(call) : launch_forward<float>(call);
}
void launch_softmax_backward(const Call& call) {
  call.dtype == DType::bf16 ? launch_backward<Bf16>(call) : launch_backward<float>(call);
}

}  // namespace memest::kernels
