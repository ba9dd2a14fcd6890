// The backward of layer and RMS normalization. Blocks stay, walk over rows, and keep the sums of dγ
// and dβ of their columns in registers; each leaves one partial row of them at its end, which a
// second kernel adds up. So x and dy are read once and dx is written once, and the sums cost no
// atomics.
#pragma once

#include "kernels/device/norm.cuh"
#include "kernels/norm_partials.hpp"

namespace memest::kernels {

inline constexpr int kNormVectors = 2;  // of a row, in the registers of a thread
static_assert(kNormVectors * 16 * kMostThreads == kLongestNormRow);
inline constexpr int kNormThreads = 512;  // of a block, with as many rows as that takes

template <class T>
struct NormBackward {
  RowShape shape;
  const T* x = nullptr;
  const T* gamma = nullptr;
  const float* mean = nullptr;  ///< null for RMS normalization
  const float* rstd = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;
  T* dgamma = nullptr;
  T* dbeta = nullptr;  ///< null for RMS normalization
  float* partials =
      nullptr;  ///< [blocks, columns] of dγ; then, for layer normalization, the same of dβ
};

/// The part of its row that a thread holds, and its columns' sums over all rows it has seen.
template <class T, Norm norm>
class NormColumns {
 public:
  static constexpr int kWidth = kLanes<T>;

  __device__ explicit NormColumns(const NormBackward<T>& call) : call_(call) {}

  __device__ void walk(std::int64_t row) {
    const RowPlace place(call_.shape, row, kWidth);
    load_row(place);
    const float rstd = place.is_present() ? call_.rstd[row] : 0;
    const float mean = norm == Norm::layer && place.is_present() ? call_.mean[row] : 0;
    float sums[2] = {0, 0};  // of γ·dy·x̂, of γ·dy
    each(place, [&](int i, int e, float gamma) {
      const float normalized = (x_[i][e] - mean) * rstd;
      const float gradient = gamma * dy_[i][e];
      sums[0] += gradient * normalized;
      sums[1] += gradient;
      dgamma_[i][e] += dy_[i][e] * normalized;
      dbeta_[i][e] += dy_[i][e];
    });
    reduce_row<Sum>(sums);
    const float columns = static_cast<float>(call_.shape.columns);
    const float mean_product = __fdividef(sums[0], columns);
    const float mean_gradient = norm == Norm::layer ? __fdividef(sums[1], columns) : 0;
    each(place, [&](int i, int e, float gamma) {
      const float normalized = (x_[i][e] - mean) * rstd;
      dy_[i].set(e, rstd * (gamma * dy_[i][e] - mean_gradient - normalized * mean_product));
    });
    store_row(place);
  }

  /// Adds over the rows of the block and writes its partial row.
  __device__ void finish() {
    write(dgamma_, call_.partials);
    if (norm == Norm::layer) {
      write(dbeta_, call_.partials + std::int64_t{gridDim.x} * call_.shape.columns);
    }
  }

 private:
  __device__ static int first_of(int vector) {
    return (vector * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kWidth;
  }
  __device__ void load_row(const RowPlace& place) {
    const std::int64_t begin = place.row * call_.shape.columns;
#pragma unroll
    for (int i = 0; i < kNormVectors; ++i) {
      if (first_of(i) >= place.extent.count) continue;
      x_[i] = load<kWidth>(call_.x + begin, first_of(i), place.extent);
      dy_[i] = load<kWidth>(call_.dy + begin, first_of(i), place.extent);
    }
  }
  __device__ void store_row(const RowPlace& place) const {
#pragma unroll
    for (int i = 0; i < kNormVectors; ++i) {
      if (first_of(i) >= place.extent.count) continue;
      store(call_.dx + place.row * call_.shape.columns, first_of(i), place.extent, dy_[i]);
    }
  }
  template <class Use>
  __device__ void each(const RowPlace& place, const Use& use) const {
#pragma unroll
    for (int i = 0; i < kNormVectors; ++i) {
      if (first_of(i) >= place.extent.count) continue;
      const Vector<T> gamma = load<kWidth, Reuse::soon>(call_.gamma, first_of(i), place.extent);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        if (first_of(i) + e < place.extent.count) use(i, e, gamma[e]);
      }
    }
  }
  __device__ void write(const float (&sums)[kNormVectors][kWidth], float* partials) const {
    __shared__ float of_rows[kMostThreads];
    const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
    for (int i = 0; i < kNormVectors; ++i) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        __syncthreads();
        of_rows[thread] = sums[i][e];
        __syncthreads();
        if (threadIdx.y != 0 || first_of(i) + e >= call_.shape.columns) continue;
        float sum = 0;
        for (unsigned y = 0; y < blockDim.y; ++y) sum += of_rows[y * blockDim.x + threadIdx.x];
        partials[std::int64_t{blockIdx.x} * call_.shape.columns + first_of(i) + e] = sum;
      }
    }
  }

  const NormBackward<T>& call_;
  Vector<T> x_[kNormVectors];
  Vector<T> dy_[kNormVectors];
  float dgamma_[kNormVectors][kWidth] = {};
  float dbeta_[kNormVectors][kWidth] = {};
};

template <class T, Norm norm>
__global__ void __launch_bounds__(kMostThreads) norm_backward(NormBackward<T> call) {
  NormColumns<T, norm> columns(call);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.y;
  for (std::int64_t first = std::int64_t{blockIdx.x} * blockDim.y; first < call.shape.rows;
       first += stride) {
    columns.walk(first + threadIdx.y);  // beyond the last row, too: its threads meet the barriers
  }
  columns.finish();
}

inline constexpr int kPartialRows = 8;  // added side by side

template <class T>
__global__ void __launch_bounds__(kWarp* kPartialRows)
    add_partials(const float* partials, RowShape shape, T* sums) {
  __shared__ float of_rows[kPartialRows][kWarp];
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float sum = 0;
  if (column < shape.columns) {
    for (std::int64_t row = threadIdx.y; row < shape.rows; row += kPartialRows) {
      sum += partials[row * shape.columns + column];
    }
  }
  of_rows[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= shape.columns) return;
#pragma unroll
  for (int row = 1; row < kPartialRows; ++row) sum += of_rows[row][threadIdx.x];
  Vector<T, kLanes<T>> result;
  result.set(0, sum);
  store(sums, column, Extent<std::int64_t>{.count = column + 1, .aligned = false}, result);
}

/// Operands in the order of the op's description.
template <Norm norm, class T>
NormBackward<T> norm_backward_of(const Call& call) {
  OperandsInTurn next(call);
  NormBackward<T> made{
      .shape = row_shape(call), .x = next.as<const T>(), .gamma = next.as<const T>()};
  if (norm == Norm::layer) made.mean = next.as<const float>();
  made.rstd = next.as<const float>();
  made.dy = next.as<const T>();
  made.dx = next.as<T>();
  made.dgamma = next.as<T>();
  if (norm == Norm::layer) made.dbeta = next.as<T>();
  made.partials = next.as<float>();
  return made;
}

template <Norm norm, class T>
void launch_norm_backward_of(const NormBackward<T>& call, Stream stream) {
  const int threads = row_threads(call.shape.columns, kLanes<T>, kNormVectors, kMostThreads);
  const int rows = threads < kNormThreads ? kNormThreads / threads : 1;
  const std::int64_t resident = resident_blocks(norm_backward<T, norm>, threads * rows);
  const std::int64_t most = resident < kMostPartials ? resident : kMostPartials;
  const std::int64_t wanted = divided_up(call.shape.rows, rows);
  const std::int64_t blocks = wanted < most ? wanted : most;
  launch(norm_backward<T, norm>, {.blocks = blocks, .x = threads, .y = rows}, stream, call);

  const RowShape shape{.rows = blocks, .columns = call.shape.columns};
  const Grid grid{.blocks = divided_up(shape.columns, kWarp), .x = kWarp, .y = kPartialRows};
  const float* of_dgamma = call.partials;
  const float* of_dbeta = call.partials + blocks * shape.columns;
  launch(add_partials<T>, grid, stream, of_dgamma, shape, call.dgamma);
  if (norm == Norm::layer) launch(add_partials<T>, grid, stream, of_dbeta, shape, call.dbeta);
}

template <Norm norm>
void launch_norm_backward(const Call& call) {
  if (call.dtype == DType::bf16) {
    launch_norm_backward_of<norm>(norm_backward_of<norm, Bf16>(call), call.stream);
  } else {
    launch_norm_backward_of<norm>(norm_backward_of<norm, float>(call), call.stream);
  }
}

}  // namespace memest::kernels
