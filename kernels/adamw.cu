#include "kernels/adamw.hpp"
#include "kernels/device/map.cuh"

namespace memest::kernels {
namespace {

struct State {
  float parameter;
  float m;
  float v;
};

__device__ State stepped(State state, float gradient) {
  constexpr AdamwStep kStep;
  state.m = kStep.beta1 * state.m + (1 - kStep.beta1) * gradient;
  state.v = kStep.beta2 * state.v + (1 - kStep.beta2) * gradient * gradient;
  const float root = sqrtf(state.v * (1 / kStep.correction2));
  const float update = state.m * (1 / kStep.correction1) / (root + kStep.epsilon);
  state.parameter = state.parameter * (1 - kStep.rate * kStep.decay) - kStep.rate * update;
  return state;
}

/// `T` is the type of parameter and gradient. Where it is narrow, `master` is the parameter in
/// fp32, and the parameter only written; else both are one array.
template <class T>
struct Adamw {
  static constexpr int kWidth = kLanes<T>;
  static constexpr int kInFlight = sizeof(T) == 4 ? 2 : 1;  // 128 bytes, 112 bytes
  struct Loaded {
    Vector<T> gradient;
    Vector<float, kWidth> master;
    Vector<float, kWidth> m;
    Vector<float, kWidth> v;
  };

  T* parameter;
  const T* gradient;
  float* master;
  float* m;
  float* v;
  Extent<std::int64_t> extent;

  __device__ Loaded load(std::int64_t first) const {
    return {.gradient = memest::kernels::load<kWidth>(gradient, first, extent),
            .master = memest::kernels::load<kWidth>(master, first, extent),
            .m = memest::kernels::load<kWidth>(m, first, extent),
            .v = memest::kernels::load<kWidth>(v, first, extent)};
  }
  __device__ void store(std::int64_t first, Loaded loaded) const {
    Vector<T> narrow;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const State state = stepped({loaded.master[e], loaded.m[e], loaded.v[e]}, loaded.gradient[e]);
      loaded.master.set(e, state.parameter);
      loaded.m.set(e, state.m);
      loaded.v.set(e, state.v);
      narrow.set(e, state.parameter);
    }
    if constexpr (sizeof(T) < sizeof(float)) {
      memest::kernels::store(parameter, first, extent, narrow);
    }
    memest::kernels::store(master, first, extent, loaded.master);
    memest::kernels::store(m, first, extent, loaded.m);
    memest::kernels::store(v, first, extent, loaded.v);
  }
};

template <class T>
void launch_of(const Call& call) {
  const int master = sizeof(T) < sizeof(float) ? 2 : 0;
  const int moments = sizeof(T) < sizeof(float) ? 3 : 2;
  launch_map(Adamw<T>{.parameter = call.operand<T>(0),
                      .gradient = call.operand<const T>(1),
                      .master = call.operand<float>(master),
                      .m = call.operand<float>(moments),
                      .v = call.operand<float>(moments + 1),
                      .extent = {.count = call.elements()}},
             call);
}

}  // namespace

void launch_adamw(const Call& call) {
  call.dtype == DType::bf16 ? launch_of<Bf16>(call) : launch_of<float>(call);
}

}  // namespace memest::kernels
