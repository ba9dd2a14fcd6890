#include "kernels/device/norm_backward.cuh"
#include "kernels/rmsnorm.hpp"

namespace memest::kernels {

void launch_rmsnorm(const Call& call) { launch_norm_forward<Norm::rms>(call, kRmsNormEpsilon); }
void launch_rmsnorm_backward(const Call& call) { launch_norm_backward<Norm::rms>(call); }

}  // namespace memest::kernels
