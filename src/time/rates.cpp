#include "rates.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// The 10th percentile, the median or time-weighted mean, and the 90th percentile of reached over
/// datasheet.
struct Efficiency {
  double slow = 0;
  double expected = 0;
  double fast = 0;

  [[nodiscard]] double at(Outlook outlook) const {
    switch (outlook) {
      case Outlook::fast:
        return fast;
      case Outlook::expected:
        return expected;
      case Outlook::slow:
        return slow;
    }
    unreachable("every outlook has an efficiency");
  }
};

/// 16-bit matmuls of training size, by GPU where one was measured, else by compute capability.
struct MatmulRow {
  std::string_view gpu;  ///< slug or compute capability
  Efficiency efficiency;
};

constexpr std::array kMatmulRows = {
    MatmulRow{"l40s", {0.51, 0.54, 0.66}},   MatmulRow{"8.0", {0.64, 0.76, 0.81}},
    MatmulRow{"9.0", {0.70, 0.73, 0.82}},    MatmulRow{"10.0", {0.49, 0.64, 0.75}},
    MatmulRow{"10.3", {0.49, 0.70, 0.80}},   MatmulRow{"12.0", {0.70, 0.81, 1.00}},
    MatmulRow{"gfx942", {0.45, 0.51, 0.60}}, MatmulRow{"gfx950", {0.45, 0.57, 0.63}},
};
/// GPUs without published random-data tables: the range of those with one.
constexpr Efficiency kMatmulElsewhere = {0.50, 0.70, 1.00};

constexpr Efficiency kMatmulFp32 = {0.57, 0.80, 0.94};
/// fp8 against the same GPU's 16-bit efficiency; the cast of the operand is included.
constexpr Efficiency kFp8OverHalf = {0.48, 0.83, 0.95};
constexpr Efficiency kAttentionForward = {0.38, 0.53, 0.65};
constexpr Efficiency kAttentionBackward = {0.34, 0.45, 0.55};
constexpr Efficiency kStream = {0.77, 0.86, 0.91};
constexpr Efficiency kNormalizationForward = {0.53, 0.65, 0.80};
constexpr Efficiency kNormalizationBackward = {0.30, 0.35, 0.50};
/// Collectives over 2 to 8 GPUs of one node, messages of 16 MiB and more.
constexpr Efficiency kLink = {0.40, 0.55, 0.71};
/// The same through the host. Two ranks reach it; of more, the slow end is a node without peer
/// access.
constexpr Efficiency kPcieTwoRanks = {0.58, 0.62, 0.66};
constexpr Efficiency kPcie = {0.05, 0.40, 0.66};
/// Seconds a small kernel takes in a stream, back to back.
constexpr Efficiency kLaunch = {2.7e-6, 2.5e-6, 1.6e-6};

/// Bytes a second of 16 lanes, one direction, after line coding. Source: PCI Express Base
/// Specification 3.0 to 6.0.
std::optional<double> pcie_rate(std::int64_t generation) {
  switch (generation) {
    case 3:
      return 15.75e9;
    case 4:
      return 31.5e9;
    case 5:
      return 63e9;
    case 6:
      return 121e9;
    default:
      return std::nullopt;
  }
}

Efficiency matmul_efficiency(const GpuSpec& gpu) {
  for (const std::string* key : {&gpu.slug, &gpu.compute_capability}) {
    const auto* row = std::find_if(kMatmulRows.begin(), kMatmulRows.end(),
                                   [&](const MatmulRow& other) { return other.gpu == *key; });
    if (row != kMatmulRows.end()) return row->efficiency;
  }
  return kMatmulElsewhere;
}

double peak_of(const GpuSpec& gpu, DType type) {
  const auto fact = gpu.peak.find(type);
  return fact == gpu.peak.end() ? 0 : fact->second.value.value();
}

/// A ring sends in one direction; the catalog's link bandwidth sums both.
std::variant<double, Unavailable> ring_rate(const Hardware& hardware, std::int64_t ranks,
                                            Outlook outlook) {
  if (ranks == 1) return 0.0;
  if (hardware.count > hardware.gpus_per_node) {
    return Unavailable{"the network between nodes is not described, so collectives over " +
                       std::to_string(hardware.count) + " GPUs have no rate"};
  }
  const GpuSpec& gpu = hardware.gpu;
  if (gpu.link_bandwidth) return gpu.link_bandwidth->value.value() / 2 * kLink.at(outlook);
  const std::optional<double> pcie =
      gpu.pcie_generation ? pcie_rate(gpu.pcie_generation->value) : std::nullopt;
  if (pcie) return *pcie * (ranks == 2 ? kPcieTwoRanks : kPcie).at(outlook);
  return Unavailable{"neither a link nor a PCIe generation is known for " + gpu.name};
}

}  // namespace

const TypeRate& Rates::of(DType type) const {
  if (is_half(type)) return half;
  return size_of(type) == 1 ? fp8 : fp32;
}

std::variant<Rates, Unavailable> rates_of(const Hardware& hardware, DType compute,
                                          std::int64_t ranks, Outlook outlook) {
  const GpuSpec& gpu = hardware.gpu;
  if (peak_of(gpu, compute) == 0) {
    return Unavailable{"no " + std::string(name_of(compute)) + " rate is known for " + gpu.name};
  }
  if (!gpu.memory_bandwidth) {
    return Unavailable{"no memory bandwidth is known for " + gpu.name};
  }
  const auto link = ring_rate(hardware, ranks, outlook);
  if (const auto* reason = std::get_if<Unavailable>(&link)) return *reason;

  Rates rates;
  const double matmul = matmul_efficiency(gpu).at(outlook);
  const double fp32 = peak_of(gpu, DType::fp32);
  const double half = std::max(peak_of(gpu, DType::bf16), peak_of(gpu, DType::fp16));
  const double fp8 = peak_of(gpu, DType::fp8);
  rates.fp32 = {.peak = fp32, .matmul = fp32 * kMatmulFp32.at(outlook)};
  rates.half = {.peak = half, .matmul = half * matmul};
  rates.fp8 = {.peak = fp8, .matmul = fp8 * matmul * kFp8OverHalf.at(outlook)};
  rates.attention_forward = kAttentionForward.at(outlook);
  rates.attention_backward = kAttentionBackward.at(outlook);
  const double bandwidth = gpu.memory_bandwidth->value.value();
  rates.stream = bandwidth * kStream.at(outlook);
  rates.normalization_forward = bandwidth * kNormalizationForward.at(outlook);
  rates.normalization_backward = bandwidth * kNormalizationBackward.at(outlook);
  rates.link = std::get<double>(link);
  rates.launch = kLaunch.at(outlook);
  return rates;
}

std::string_view efficiency_rule() {
  return "datasheet peak times the median efficiency of published kernel measurements, one for "
         "each "
         "class of work; the interval is their 10th to 90th percentile (docs/calibration.md)";
}

}  // namespace memest
