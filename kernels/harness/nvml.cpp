#include "kernels/harness/nvml.hpp"

#include <array>

namespace memest::kernels {
namespace {

// From nvml.h, which toolkits may lack.
using Answer = int;
constexpr Answer kSuccess = 0;
constexpr int kClockOfMultiprocessors = 1;  // NVML_CLOCK_SM
struct Utilization {                        // nvmlUtilization_t
  unsigned kernels = 0;
  unsigned memory = 0;
};
constexpr std::size_t kVersionLength = 80;  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE

}  // namespace

Nvml::Nvml(const std::string& pci_address) : library_("libnvidia-ml.so.1") {
  auto* initialize = library_.function<Answer()>("nvmlInit_v2");
  auto* find = library_.function<Answer(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (initialize == nullptr || find == nullptr || initialize() != kSuccess) return;
  // By its PCI address: CUDA_VISIBLE_DEVICES renumbers CUDA's devices, not NVML's.
  if (find(pci_address.c_str(), &device_) != kSuccess) device_ = nullptr;
}

Nvml::~Nvml() {
  auto* shut_down = library_.function<Answer()>("nvmlShutdown");
  if (shut_down != nullptr) shut_down();
}

double Nvml::clock_mhz() const {
  auto* read = library_.function<Answer(Device, int, unsigned*)>("nvmlDeviceGetClockInfo");
  unsigned clock_mhz = 0;
  if (device_ == nullptr || read == nullptr) return 0;
  return read(device_, kClockOfMultiprocessors, &clock_mhz) == kSuccess ? clock_mhz : 0;
}

double Nvml::busy_share() const {
  auto* read = library_.function<Answer(Device, Utilization*)>("nvmlDeviceGetUtilizationRates");
  Utilization percent;
  if (device_ == nullptr || read == nullptr) return 0;
  return read(device_, &percent) == kSuccess ? percent.kernels / 100.0 : 0;
}

std::string Nvml::driver_version() const {
  auto* read = library_.function<Answer(char*, unsigned)>("nvmlSystemGetDriverVersion");
  std::array<char, kVersionLength> text{};
  if (device_ == nullptr || read == nullptr) return {};
  return read(text.data(), kVersionLength) == kSuccess ? text.data() : std::string();
}

}  // namespace memest::kernels
