#include "rates.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// A slow end, an expected value and a fast end of reached over datasheet.
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

/// An efficiency of one kind of GPU: a slug or a compute capability.
struct GpuRow {
  std::string_view gpu;
  Efficiency efficiency;
};

/// 16-bit matmuls of training size. Where whole steps were recorded (8.0, 9.0) their scatter is in
/// the share below.
constexpr std::array kMatmulRows = {
    GpuRow{"l40s", {0.51, 0.54, 0.66}},   GpuRow{"8.0", {0.76, 0.76, 0.76}},
    GpuRow{"9.0", {0.73, 0.73, 0.73}},    GpuRow{"10.0", {0.49, 0.64, 0.75}},
    GpuRow{"10.3", {0.49, 0.70, 0.80}},   GpuRow{"12.0", {0.70, 0.81, 1.00}},
    GpuRow{"gfx942", {0.45, 0.51, 0.60}}, GpuRow{"gfx950", {0.45, 0.57, 0.63}},
};
/// GPUs without published random-data tables: the range of those with one.
constexpr Efficiency kMatmulElsewhere = {0.50, 0.70, 1.00};

/// Share of a whole step's passes that the kernels' own times explain; the rest is gaps, contention
/// with collectives, clocks under load. 10th, 50th and 90th percentile over recorded steps.
constexpr std::array kStepShareRows = {
    GpuRow{"8.0", {0.75, 0.85, 0.97}},
    GpuRow{"9.0", {0.52, 0.66, 0.80}},
};
/// The same where products and attention are timed by a profile's laws.
constexpr std::array kLawShareRows = {
    GpuRow{"8.0", {0.74, 0.86, 0.97}},
    GpuRow{"9.0", {0.50, 0.68, 0.81}},
};
constexpr Efficiency kStepShareElsewhere = {0.54, 0.79, 0.94};

constexpr double kMatmulFp32 = 0.80;
/// fp8 against the same GPU's 16-bit efficiency; the cast of the operand is included.
constexpr double kFp8OverHalf = 0.83;
constexpr double kAttentionForward = 0.53;
constexpr double kAttentionBackward = 0.45;
constexpr double kStream = 0.86;
constexpr double kNormalizationForward = 0.65;
constexpr double kNormalizationBackward = 0.35;
/// Seconds a small kernel takes in a stream, back to back.
constexpr double kLaunch = 2.5e-6;
/// Collectives over 2 to 8 GPUs of one node, messages of 16 MiB and more.
constexpr Efficiency kLink = {0.40, 0.55, 0.71};
/// The same through the host. Two ranks reach it; of more, the slow end is a node without peer
/// access.
constexpr Efficiency kPcieTwoRanks = {0.58, 0.62, 0.66};
constexpr Efficiency kPcie = {0.05, 0.40, 0.66};

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

/// By slug first: what was measured on this very GPU is better than on its kind. Null where neither
/// was.
template <std::size_t kRows>
const Efficiency* row_of(const GpuSpec& gpu, const std::array<GpuRow, kRows>& rows) {
  for (const std::string* key : {&gpu.slug, &gpu.compute_capability}) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const GpuRow& other) { return other.gpu == *key; });
    if (row != rows.end()) return &row->efficiency;
  }
  return nullptr;
}

template <std::size_t kRows>
Efficiency efficiency_of(const GpuSpec& gpu, const std::array<GpuRow, kRows>& rows,
                         const Efficiency& elsewhere) {
  const Efficiency* row = row_of(gpu, rows);
  return row != nullptr ? *row : elsewhere;
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

  const auto& shares = ProfileLaws::know(gpu, compute) ? kLawShareRows : kStepShareRows;
  const double share = efficiency_of(gpu, shares, kStepShareElsewhere).at(outlook);
  const double matmul = efficiency_of(gpu, kMatmulRows, kMatmulElsewhere).at(outlook) * share;
  const double fp32 = peak_of(gpu, DType::fp32);
  const double half = std::max(peak_of(gpu, DType::bf16), peak_of(gpu, DType::fp16));
  const double fp8 = peak_of(gpu, DType::fp8);
  const double bandwidth = gpu.memory_bandwidth->value.value() * share;
  Rates rates;
  rates.fp32 = {.peak = fp32, .matmul = fp32 * kMatmulFp32 * share};
  rates.half = {.peak = half, .matmul = half * matmul};
  rates.fp8 = {.peak = fp8, .matmul = fp8 * matmul * kFp8OverHalf};
  rates.attention_forward = kAttentionForward * share;
  rates.attention_backward = kAttentionBackward * share;
  rates.stream = bandwidth * kStream;
  rates.normalization_forward = bandwidth * kNormalizationForward;
  rates.normalization_backward = bandwidth * kNormalizationBackward;
  rates.link = std::get<double>(link);
  rates.launch = kLaunch / share;
  rates.laws = ProfileLaws(gpu, share);
  return rates;
}

std::string_view efficiency_rule(const GpuSpec& gpu) {
  if (row_of(gpu, kStepShareRows) != nullptr) {
    return "datasheet peak times the efficiency of published kernel measurements, one for each "
           "class "
           "of work, times the share of recorded training steps that kernels explain; the interval "
           "holds four of five of those steps (docs/calibration.md)";
  }
  return "datasheet peak times the efficiency of published kernel measurements, one for each class "
         "of "
         "work, times the share that kernels explain of training steps recorded on A100 and H100; "
         "no "
         "step was recorded on this kind of GPU, so the interval is unchecked "
         "(docs/calibration.md)";
}

std::string_view law_rule(const GpuSpec& gpu) {
  if (row_of(gpu, kStepShareRows) != nullptr) {
    return "matrix products and attention by laws fitted to measurements of this kind of GPU "
           "(`memest profile`), the rest by datasheet rates and published efficiencies, all over "
           "the share of recorded training steps that kernels explain; the interval holds four of "
           "five of those steps (docs/calibration.md)";
  }
  return "matrix products and attention by laws fitted to measurements of this kind of GPU "
         "(`memest "
         "profile`), the rest by datasheet rates and published efficiencies, all over the share "
         "that "
         "kernels explain of training steps recorded on A100 and H100; no step was recorded on "
         "this "
         "kind of GPU, so the interval is unchecked (docs/calibration.md)";
}

}  // namespace memest
