#include "kernels/device/map.cuh"
#include "kernels/rotary.hpp"

namespace memest::kernels {
namespace {

/// A map counts the first half of each row, rounded up to whole vectors; an
/// element takes its partner of the second half along.
template <class T, int kSign>
struct Rotary {
  static constexpr int kWidth = kLanes<T>;
  static constexpr int kInFlight = 2;
  struct Loaded {
    Vector<T> first;
    Vector<T> second;
    Vector<T> cosines;
    Vector<T> sines;
  };

  const T* x;
  const T* cosines;
  const T* sines;
  T* y;
  std::int64_t columns;
  std::int64_t counted;  // of a row
  Extent<std::int64_t> half;

  explicit Rotary(const Call& call)
      : x(call.operand<const T>(0)),
        cosines(call.operand<const T>(1)),
        sines(call.operand<const T>(2)),
        y(call.operand<T>(3)),
        columns(call.columns),
        counted(divided_up(divided_up(columns, 2), kWidth) * kWidth),
        half{.count = columns / 2, .aligned = columns % (2 * kWidth) == 0} {}

  __device__ Loaded load(std::int64_t at) const {
    const std::int64_t row = at / counted;
    const std::int64_t column = at - row * counted;
    const std::int64_t position = row / kRotaryHeads * half.count;
    const T* begin = x + row * columns;
    return {.first = memest::kernels::load<kWidth>(begin, column, half),
            .second = memest::kernels::load<kWidth>(begin + half.count, column, half),
            .cosines = memest::kernels::load<kWidth, Reuse::soon>(cosines + position, column, half),
            .sines = memest::kernels::load<kWidth, Reuse::soon>(sines + position, column, half)};
  }
  __device__ void store(std::int64_t at, const Loaded& loaded) const {
    Vector<T> first;
    Vector<T> second;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float sine = kSign * loaded.sines[e];
      first.set(e, loaded.first[e] * loaded.cosines[e] - loaded.second[e] * sine);
      second.set(e, loaded.second[e] * loaded.cosines[e] + loaded.first[e] * sine);
    }
    const std::int64_t row = at / counted;
    const std::int64_t column = at - row * counted;
    T* begin = y + row * columns;
    memest::kernels::store(begin, column, half, first);
    memest::kernels::store(begin + half.count, column, half, second);
    const std::int64_t last = columns - 1;
    if (column == 0 && columns % 2 != 0) begin[last] = x[row * columns + last];
  }
};

template <class T, int kSign>
void launch_of(const Call& call) {
  const Rotary<T, kSign> rotary(call);
  launch_map(rotary, call.rows * rotary.counted, call.stream);
}

template <int kSign>
void launch_sign(const Call& call) {
  call.dtype == DType::bf16 ? launch_of<Bf16, kSign>(call) : launch_of<float, kSign>(call);
}

}  // namespace

void launch_rotary(const Call& call) { launch_sign<1>(call); }
void launch_rotary_backward(const Call& call) { launch_sign<-1>(call); }

}  // namespace memest::kernels
