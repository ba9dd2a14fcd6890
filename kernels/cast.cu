#include "kernels/cast.hpp"
#include "kernels/device/map.cuh"

namespace memest::kernels {
namespace {

struct Cast {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[1], float (&out)[1]) { out[0] = in[0]; }
};
struct ScaledCast {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[1], float (&out)[1]) { out[0] = kFp8Scale * in[0]; }
};

}  // namespace

void launch_cast(const Call& call) {
  if (call.dtype == DType::fp8) {
    launch_map(Elementwise<Bf16, Fp8, ScaledCast>(call), call);
  } else if (call.dtype == DType::bf16) {
    launch_map(Elementwise<Bf16, float, Cast>(call), call);
  } else {
    launch_map(Elementwise<float, Bf16, Cast>(call), call);
  }
}

}  // namespace memest::kernels
