#include "kernels/device/map.cuh"
#include "kernels/gelu.hpp"

namespace memest::kernels {
namespace {

__device__ float normal_cdf(float x) {
  return 0.5F * (1 + erff(x * static_cast<float>(kInverseSqrt2)));
}

struct Gelu {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[1], float (&out)[1]) {
    out[0] = in[0] * normal_cdf(in[0]);
  }
};
struct GeluBackward {
  static constexpr int kInputs = 2;  // x, dy
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[2], float (&out)[1]) {
    const float density = static_cast<float>(kInverseSqrt2Pi) * __expf(-0.5F * in[0] * in[0]);
    out[0] = in[1] * (normal_cdf(in[0]) + in[0] * density);
  }
};

}  // namespace

void launch_gelu(const Call& call) { launch_elementwise<Gelu>(call); }
void launch_gelu_backward(const Call& call) { launch_elementwise<GeluBackward>(call); }

}  // namespace memest::kernels
