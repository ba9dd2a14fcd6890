#include "kernels/cuda/device.hpp"

#include <array>
#include <cstddef>

namespace memest::kernels {
namespace {

constexpr int kFirstDevice = 0;
constexpr int kAddressLength = 32;

cudaDeviceProp properties() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, kFirstDevice));
  return properties;
}

/// CUDA writes 13.0 as 13000 + 10·0, its libraries 13.1.2 as 130000 + 100·1 + 2.
std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
std::string library_version(std::size_t version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

std::string first_device_address() {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  if (count == 0) check(cudaErrorNoDevice);
  std::array<char, kAddressLength> address{};
  check(cudaDeviceGetPCIBusId(address.data(), kAddressLength, kFirstDevice));
  return address.data();
}

Device::Device() {
  const cudaDeviceProp found = properties();
  capability = {found.major, found.minor};
  l2_cache = Bytes(found.l2CacheSize);
}

DeviceFacts Device::facts() const {
  const cudaDeviceProp found = properties();
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime));
  return {.name = std::string(&found.name[0]),
          .compute_capability = ComputeCapability{found.major, found.minor},
          .multiprocessors = found.multiProcessorCount,
          .memory = Bytes(static_cast<std::int64_t>(found.totalGlobalMem)),
          .l2_cache = Bytes(found.l2CacheSize),
          .driver = nvml.driver_version(),
          .libraries = {"CUDA " + cuda_version(runtime),
                        "cuBLASLt " + library_version(cublasLtGetVersion())},
          .free_memory = free_memory(),
          .busy_share = nvml.busy_share()};
}

Bytes Device::free_memory() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes));
  return Bytes(static_cast<std::int64_t>(free_bytes));
}

}  // namespace memest::kernels
