// Kernels that need a row as a whole. The threads of a block with the same y share a row and hold
// it in registers; what does not fit there is read again each time it is asked for.
#pragma once

#include "kernels/device/reduce.cuh"
#include "kernels/device/vector.cuh"

namespace memest::kernels {

inline constexpr int kKeptVectors = 4;  // of all arrays together, in the registers of a thread
inline constexpr int kMostThreads = 1024;
inline constexpr int kUsualThreads = 256;  // of a block, with as many rows as that takes

/// Rows of `columns` elements, under 2³¹.
struct RowShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// The row of this thread; no columns beyond the last row, whose threads only meet barriers.
struct RowPlace {
  std::int64_t row;
  Extent<int> extent;

  __device__ RowPlace(const RowShape& shape, std::int64_t index, int lanes)
      : row(index),
        extent{.count = index < shape.rows ? static_cast<int>(shape.columns) : 0,
               .aligned = shape.columns % lanes == 0} {}
  __device__ RowPlace(const RowShape& shape, int lanes)
      : RowPlace(shape, std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y, lanes) {}
  __device__ bool is_present() const { return extent.count > 0; }
};

/// One row of several arrays.
template <class T, int kArrays>
class Rows {
 public:
  static constexpr int kWidth = kLanes<T>;
  static constexpr int kKept = kKeptVectors / kArrays;
  using Vectors = Vector<T>[kArrays];

  /// Pointers to the row's first elements.
  __device__ Rows(const T* const (&rows)[kArrays], const Extent<int>& extent) : extent_(extent) {
#pragma unroll
    for (int array = 0; array < kArrays; ++array) rows_[array] = rows[array];
    load_batch(0, kept_);
  }

  /// `use(first column, vectors)` for every vector of the row that is this thread's.
  template <class Use>
  __device__ void each(const Use& use) const {
    use_batch(0, kept_, use);
    const int batch = static_cast<int>(blockDim.x) * kKept * kWidth;
    for (int begin = batch; begin < extent_.count; begin += batch) {
      Vectors again[kKept];
      load_batch(begin, again);
      use_batch(begin, again, use);
    }
  }

  /// `use(values)` for every element, an array of one float from each array.
  template <class Use>
  __device__ void each_element(const Use& use) const {
    each([&](int first, const Vectors& vectors) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        float values[kArrays];
#pragma unroll
        for (int array = 0; array < kArrays; ++array) values[array] = vectors[array][e];
        if (first + e < extent_.count) use(values);
      }
    });
  }

 private:
  __device__ int first_of(int begin, int vector) const {
    return begin + (vector * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kWidth;
  }
  __device__ void load_batch(int begin, Vectors (&batch)[kKept]) const {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (first_of(begin, i) >= extent_.count) continue;
#pragma unroll
      for (int array = 0; array < kArrays; ++array) {
        batch[i][array] = load<kWidth>(rows_[array], first_of(begin, i), extent_);
      }
    }
  }
  template <class Use>
  __device__ void use_batch(int begin, const Vectors (&batch)[kKept], const Use& use) const {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (first_of(begin, i) < extent_.count) use(first_of(begin, i), batch[i]);
    }
  }

  const T* rows_[kArrays];
  Extent<int> extent_;
  Vectors kept_[kKept];
};

/// Threads that share a row of `columns`, each with `vectors` of it where a block is wide enough.
constexpr int row_threads(std::int64_t columns, int lanes, int vectors, int most) {
  const std::int64_t warps = divided_up(columns, std::int64_t{lanes} * vectors * kWarp);
  const std::int64_t threads = warps * kWarp;
  return static_cast<int>(threads < kWarp ? kWarp : threads > most ? most : threads);
}

/// A block for each row of `arrays` arrays, or for each few short ones.
template <class T>
Grid row_grid(const RowShape& shape, int arrays = 1, int most_threads = kMostThreads) {
  const int threads = row_threads(shape.columns, kLanes<T>, kKeptVectors / arrays, most_threads);
  const int rows = threads < kUsualThreads ? kUsualThreads / threads : 1;
  return {.blocks = divided_up(shape.rows, rows), .x = threads, .y = rows};
}

inline RowShape row_shape(const Call& call) { return {.rows = call.rows, .columns = call.columns}; }

}  // namespace memest::kernels
