#include "kernels/device/map.cuh"
#include "kernels/dropout.hpp"
#include "kernels/philox.hpp"

namespace memest::kernels {
namespace {

constexpr float kKeptFactor = 1 / (1 - kDropped);

/// A vector is a whole number of the generator's four words.
template <class T>
struct Dropout {
  static constexpr int kWidth = kLanes<T>;
  static constexpr int kInFlight = 4;
  using Loaded = Vector<T>;

  const T* x;
  T* y;
  Mask* mask;
  Extent<std::int64_t> extent;

  __device__ Loaded load(std::int64_t first) const {
    return memest::kernels::load<kWidth>(x, first, extent);
  }
  __device__ void store(std::int64_t first, const Loaded& loaded) const {
    Vector<T> results;
    Vector<Mask, kWidth> stays;
#pragma unroll
    for (int e = 0; e < kWidth; e += 4) {
      const PhiloxWords words =
          random_words(static_cast<std::uint64_t>((first + e) / 4), kDropoutSeed);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float stay = unit_interval(words.at[i]) >= kDropped ? 1 : 0;
        results.set(e + i, loaded[e + i] * (stay * kKeptFactor));
        stays.set(e + i, stay);
      }
    }
    memest::kernels::store(y, first, extent, results);
    memest::kernels::store(mask, first, extent, stays);
  }
};

template <class T>
struct DropoutBackward {
  static constexpr int kWidth = kLanes<T>;
  static constexpr int kInFlight = 4;
  struct Loaded {
    Vector<T> dy;
    Vector<Mask, kWidth> mask;
  };

  const T* dy;
  const Mask* mask;
  T* dx;
  Extent<std::int64_t> extent;

  __device__ Loaded load(std::int64_t first) const {
    return {.dy = memest::kernels::load<kWidth>(dy, first, extent),
            .mask = memest::kernels::load<kWidth>(mask, first, extent)};
  }
  __device__ void store(std::int64_t first, const Loaded& loaded) const {
    Vector<T> results;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      results.set(e, loaded.dy[e] * (loaded.mask[e] * kKeptFactor));
    }
    memest::kernels::store(dx, first, extent, results);
  }
};

template <class T>
void launch_forward(const Call& call) {
  launch_map(Dropout<T>{.x = call.operand<const T>(0),
                        .y = call.operand<T>(1),
                        .mask = call.operand<Mask>(2),
                        .extent = {.count = call.elements()}},
             call);
}
template <class T>
void launch_backward(const Call& call) {
  launch_map(DropoutBackward<T>{.dy = call.operand<const T>(0),
                                .mask = call.operand<const Mask>(1),
                                .dx = call.operand<T>(2),
                                .extent = {.count = call.elements()}},
             call);
}

}  // namespace

void launch_dropout(const Call& call) {
  call.dtype == DType::bf16 ? launch_forward<Bf16>(call) : launch_forward<float>(call);
}
void launch_dropout_backward(const Call& call) {
  call.dtype == DType::bf16 ? launch_backward<Bf16>(call) : launch_backward<float>(call);
}

}  // namespace memest::kernels
