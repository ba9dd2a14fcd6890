#include "kernels/device/map.cuh"
#include "kernels/silu_mul.hpp"

namespace memest::kernels {
namespace {

__device__ float sigmoid(float x) { return __fdividef(1, 1 + __expf(-x)); }

struct SiluMul {
  static constexpr int kInputs = 2;  // gate, up
  static constexpr int kOutputs = 1;
  static __device__ void of(const float (&in)[2], float (&out)[1]) {
    out[0] = in[0] * sigmoid(in[0]) * in[1];
  }
};
struct SiluMulBackward {
  static constexpr int kInputs = 3;   // gate, up, dy
  static constexpr int kOutputs = 2;  // dgate, dup
  static __device__ void of(const float (&in)[3], float (&out)[2]) {
    const float share = sigmoid(in[0]);
    out[0] = in[2] * in[1] * share * (1 + in[0] * (1 - share));
    out[1] = in[2] * in[0] * share;
  }
};

}  // namespace

void launch_silu_mul(const Call& call) { launch_elementwise<SiluMul>(call); }
void launch_silu_mul_backward(const Call& call) { launch_elementwise<SiluMulBackward>(call); }

}  // namespace memest::kernels
