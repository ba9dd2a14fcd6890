#include "kernels/device/norm_backward.cuh"
#include "kernels/layernorm.hpp"

namespace memest::kernels {

void launch_layernorm(const Call& call) {
  launch_norm_forward<Norm::layer>(call, kLayerNormEpsilon);
}
void launch_layernorm_backward(const Call& call) { launch_norm_backward<Norm::layer>(call); }

}  // namespace memest::kernels
