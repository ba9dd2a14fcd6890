#include "memest/spec/gpu/gpu_profile.hpp"

namespace memest {

MatmulKind kind_of(const MatmulShape& shape) {
  return {.operand = shape.operand,
          .scaling = shape.scaling,
          .tensor_float = shape.tensor_float,
          .cast_included = shape.cast_included};
}

AttentionKind kind_of(const AttentionShape& shape) {
  return {.kernel = shape.kernel, .dtype = shape.dtype, .pass = shape.pass, .causal = shape.causal};
}

StreamKind kind_of(const StreamShape& shape) {
  return {.op = shape.op, .pass = shape.pass, .dtype = shape.dtype};
}

CollectiveKind kind_of(const CollectiveShape& shape) {
  return {.op = shape.op, .gpus = shape.gpus};
}

TransferPath kind_of(const TransferShape& shape) { return shape.path; }

LaunchPath kind_of(const LaunchShape& shape) { return shape.path; }

GpuSpec gpu_of(const ProfiledMachine& machine, const std::string& slug) {
  const auto measured = [](auto value) {
    return Fact<decltype(value)>{value, Provenance::measured, "memest calibrate", ""};
  };
  GpuSpec gpu;
  gpu.slug = slug;
  gpu.name = slug;
  gpu.capacity = measured(machine.memory);
  gpu.memory_bandwidth = measured(machine.bandwidth);
  gpu.peak[DType::fp32] = measured(machine.fp32_peak);
  gpu.multiprocessors = measured(machine.multiprocessors);
  gpu.l2_cache = measured(machine.l2_cache);
  return gpu;
}

}  // namespace memest
