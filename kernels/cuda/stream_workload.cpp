#include "kernels/cuda/workload.hpp"
#include "kernels/launches.hpp"

namespace memest::kernels {

Workload stream_workload(const StreamShape& shape) {
  const StreamKernel* kernel = find_stream_kernel(shape.op, shape.pass);
  const Launcher launch = find_launcher(shape);
  return {.description = kernel->describe(shape),
          .enqueue =
              [=](void* const* operands, Stream stream) {
                launch({.dtype = shape.dtype,
                        .rows = shape.rows,
                        .columns = shape.columns,
                        .operands = operands,
                        .stream = stream});
              },
          .reference = [=](double* const* operands) { kernel->reference(shape, operands); }};
}

}  // namespace memest::kernels
