#include "cli/device/device.hpp"

#include <string>
#include <utility>

#include "memest/calibrate/machine.hpp"
#include "memest/diag/environment.hpp"
#include "memest/reader/catalog.hpp"

namespace memest {
namespace {

std::unique_ptr<Backend> open_gpu() {
  try {
    return open_cuda_backend();
  } catch (const EnvironmentError& error) {
    throw EnvironmentError(std::string("no GPU can be measured here: ") + error.what() +
                           " (--device host measures the processor)");
  }
}

/// By --gpu, or by the name that the driver gives it.
Checked<GpuSpec> known_gpu(const DeviceFacts& facts, const std::string& chosen) {
  if (!chosen.empty()) return find_gpu(chosen);
  Checked<GpuSpec> gpu = find_gpu(facts.name);
  if (gpu.ok()) return gpu;
  return Diagnostic{Severity::error,
                    {},
                    "memest has no facts of a GPU that calls itself '" + facts.name + "'",
                    "--gpu NAME says which of `memest gpus` it is, or names a file of that form",
                    false};
}

Diagnostics parts_missing(const DeviceFacts& facts, const GpuSpec& gpu) {
  if (!gpu.multiprocessors || gpu.multiprocessors->value == facts.multiprocessors) return {};
  return {{Severity::warning,
           {},
           "'" + facts.name + "' has " + std::to_string(facts.multiprocessors) +
               " multiprocessors, " + gpu.name + " " + std::to_string(gpu.multiprocessors->value),
           "a part of a GPU, or another model: its profile will not be that of " + gpu.slug,
           false}};
}

std::shared_ptr<OpenDevice> opened(std::unique_ptr<Backend> backend, GpuSpec gpu) {
  auto device = std::make_shared<OpenDevice>();
  device->backend = std::move(backend);
  Backend* measures = device->backend.get();
  device->device = {measures->facts(), std::move(gpu),
                    [measures](const KernelShape& shape) { return measures->can_measure(shape); }};
  return device;
}

}  // namespace

Checked<std::shared_ptr<OpenDevice>> open_device(const Arguments& arguments) {
  if (arguments.device == DeviceKind::host) {
    auto backend = open_host_backend();
    GpuSpec machine = gpu_of(profiled_machine_of(backend->facts(), {}), kHost);
    return opened(std::move(backend), std::move(machine));
  }
  auto backend = open_gpu();
  const DeviceFacts facts = backend->facts();
  Checked<GpuSpec> gpu = known_gpu(facts, arguments.gpu);
  if (!gpu.ok()) return gpu.diagnostics();
  Diagnostics warnings = parts_missing(facts, gpu.value());
  return {opened(std::move(backend), std::move(gpu).value()), std::move(warnings)};
}

}  // namespace memest
