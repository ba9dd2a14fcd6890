#include "kernels/device/row.cuh"
#include "kernels/embedding.hpp"

namespace memest::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kMostThreads)
    embedding(RowShape shape, const T* table, const std::int64_t* tokens, T* y) {
  const RowPlace place(shape, kLanes<T>);
  if (!place.is_present()) return;
  const Rows<T, 1> row({table + tokens[place.row] * shape.columns}, place.extent);
  row.each([&](int first, const Vector<T>(&vectors)[1]) {
    store(y + place.row * shape.columns, first, place.extent, vectors[0]);
  });
}

template <class T>
__global__ void __launch_bounds__(kMostThreads)
    embedding_backward(RowShape shape, const std::int64_t* tokens, const T* dy, float* dtable) {
  const RowPlace place(shape, kLanes<T>);
  if (!place.is_present()) return;
  const Rows<T, 1> row({dy + place.row * shape.columns}, place.extent);
  float* to = dtable + tokens[place.row] * shape.columns;
  row.each([&](int first, const Vector<T>(&vectors)[1]) {
#pragma unroll
    for (int e = 0; e < kLanes<T>; ++e) {
      if (first + e < place.extent.count) atomicAdd(to + first + e, vectors[0][e]);
    }
  });
}

template <class T>
void launch_forward(const Call& call) {
  launch(embedding<T>, row_grid<T>(row_shape(call)), call.stream, row_shape(call),
         call.operand<const T>(0), call.operand<const std::int64_t>(1), call.operand<T>(2));
}
template <class T>
void launch_backward(const Call& call) {
  launch(embedding_backward<T>, row_grid<T>(row_shape(call)), call.stream, row_shape(call),
         call.operand<const std::int64_t>(0), call.operand<const T>(1), call.operand<float>(2));
}

}  // namespace

void launch_embedding(const Call& call) {
  call.dtype == DType::bf16 ? launch_forward<Bf16>(call) : launch_forward<float>(call);
}
void launch_embedding_backward(const Call& call) {
  call.dtype == DType::bf16 ? launch_backward<Bf16>(call) : launch_backward<float>(call);
}

}  // namespace memest::kernels
