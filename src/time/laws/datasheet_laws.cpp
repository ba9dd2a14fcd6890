#include "time/laws/datasheet_laws.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "time/laws/nearest_fit.hpp"

namespace memest {
namespace {

/// A slow end, an expected value and a fast end of reached over datasheet.
struct Efficiency {
  double slow = 0;
  double expected = 0;
  double fast = 0;
};
constexpr Efficiency certain(double value) { return {value, value, value}; }

/// An efficiency of the GPUs of one target.
struct TargetRow {
  GpuTarget target;
  Efficiency efficiency;
};

/// 16-bit matmuls of training size. Where whole steps were recorded (8.0, 9.0) their scatter is in
/// the share of a step that kernels explain.
constexpr std::array kMatmulRows = {
    TargetRow{kAmpere, certain(0.76)},
    TargetRow{kHopper, certain(0.73)},
    TargetRow{kBlackwell, {0.49, 0.64, 0.75}},
    TargetRow{ComputeCapability{10, 3}, {0.49, 0.70, 0.80}},
    TargetRow{ComputeCapability{12, 0}, {0.70, 0.81, 1.00}},
    TargetRow{GfxTarget{9, 4, 2}, {0.45, 0.51, 0.60}},
    TargetRow{GfxTarget{9, 5, 0}, {0.45, 0.57, 0.63}},
};
/// A measurement on this very GPU is better than one on its kind.
constexpr std::string_view kL40s = "l40s";
constexpr Efficiency kMatmulL40s = {0.51, 0.54, 0.66};
/// GPUs without published random-data tables: the range of those with one.
constexpr Efficiency kMatmulElsewhere = {0.50, 0.70, 1.00};
constexpr double kMatmulFp32 = 0.80;
/// fp8 against the same GPU's 16-bit efficiency; the cast of the operand is included.
constexpr double kFp8OverHalf = 0.83;
/// Likewise fp4: products of 1 to 3 ms reach 0.66, 0.61 and 0.55 of it on GB200, B200 and B300
/// (docs/calibration.md).
constexpr double kFp4OverHalf = 0.61;

/// Fused attention over long sequences, and the tokens at which it reaches half of that. A row
/// without a capability stands for every GPU.
struct AttentionRow {
  std::string_view kernel;
  std::optional<ComputeCapability> capability;
  KernelPass pass;
  double efficiency;
};
constexpr std::array kAttentionRows = {
    AttentionRow{"", {}, KernelPass::forward, 0.53},
    AttentionRow{"", {}, KernelPass::backward, 0.45},
    // Hopper's tensor cores give half of their rate to the instructions of Ampere.
    AttentionRow{kFlashAttention2, kHopper, KernelPass::forward, 0.35},
    AttentionRow{kFlashAttention2, kHopper, KernelPass::backward, 0.35},
};
constexpr double kAttentionHalfLength = 500;

/// Efficiency by the operation that stands for its class: normalizations, and all that passes over
/// its data once.
struct StreamRow {
  StreamOp op;
  KernelPass pass;
  double efficiency;
};
constexpr std::array kStreamRows = {StreamRow{StreamOp::layernorm, KernelPass::forward, 0.65},
                                    StreamRow{StreamOp::layernorm, KernelPass::backward, 0.35},
                                    StreamRow{StreamOp::copy, KernelPass::forward, 0.86}};

/// Seconds a small kernel takes in a stream, back to back.
constexpr double kLaunch = 2.5e-6;

/// About this many ranks, of one direction of the link. Messages of 16 MiB and more.
struct LinkRow {
  std::int64_t ranks;
  Efficiency efficiency;
};
constexpr std::array kLinkRows = {LinkRow{2, {0.40, 0.55, 0.71}}};
/// As above through the host, with peer access; without it, four and eight ranks are the slow end.
constexpr std::array kPcieRows = {LinkRow{2, {0.58, 0.62, 0.66}}, LinkRow{4, {0.16, 0.64, 0.66}},
                                  LinkRow{8, {0.05, 0.40, 0.66}}};

/// Bytes a second of 16 lanes, one direction, after line coding. Source: PCI Express Base
/// Specification 3.0 to 6.0.
struct PcieRate {
  std::int64_t generation;
  double bytes_per_second;
};
constexpr std::array kPcieRates = {PcieRate{3, 15.75e9}, PcieRate{4, 31.5e9}, PcieRate{5, 63e9},
                                   PcieRate{6, 121e9}};

/// Transfers of page-locked memory. Fast: an H200 (PCIe 5, 55 of 63 GB/s); expected: PCIe 4, 26 of
/// 31.5 GB/s; slow: the rate per direction with both at once (NVIDIA/nvbandwidth's README).
constexpr Efficiency kTransfers = {0.59, 0.82, 0.88};

const Efficiency& matmul_efficiency(const GpuSpec& gpu) {
  // The L40S is of 8.9, whose other cards have other limits of power.
  if (gpu.slug == kL40s) return kMatmulL40s;
  const auto* const row = std::ranges::find(kMatmulRows, gpu.target, &TargetRow::target);
  return row == kMatmulRows.end() ? kMatmulElsewhere : row->efficiency;
}

/// The ends as quantiles of measured over predicted time.
LawResiduals scatter_of(const Efficiency& efficiency) {
  LawResiduals residuals;
  // Time is the inverse of efficiency: the fast end of one is the low end of the other.
  residuals.low = efficiency.expected / efficiency.fast - 1;
  residuals.high = efficiency.expected / efficiency.slow - 1;
  return residuals;
}

/// The longer of compute and traffic, without tiles, waves or launch.
MatmulFit matmul_fit(const MatmulKind& kind, const Efficiency& efficiency, double factor) {
  MatmulFit fit{.kind = kind, .law = {}, .residuals = scatter_of(efficiency)};
  fit.provenance = Provenance::datasheet;
  // An infinite exponent of the p-norm is the maximum.
  fit.law.product = {.peak_share = efficiency.expected * factor,
                     .tile_loss = 0,
                     .prologue = 0,
                     .epilogue = 0,
                     .bandwidth_share = kStreamRows.back().efficiency,
                     .overlap = std::numeric_limits<double>::infinity(),
                     .launch = 0,
                     .split_traffic = 0,
                     .power_loss = 0,
                     .power_time = 0,
                     .whole_waves = 0};
  return fit;
}

AttentionFit attention_fit(const AttentionRow& row, DType dtype) {
  AttentionFit fit;
  fit.kind = {.kernel = std::string(row.kernel), .dtype = dtype, .pass = row.pass, .causal = true};
  fit.provenance = Provenance::datasheet;
  fit.law = {.peak_share = row.efficiency,
             .half_length = kAttentionHalfLength,
             .head_dim_loss = 0,
             .path_share = 0,
             .bandwidth_share = std::numeric_limits<double>::infinity(),  // in peak_share
             .launch = 0};
  return fit;
}

StreamFit stream_fit(const StreamRow& row) {
  StreamFit fit{.kind = {.op = row.op, .pass = row.pass}, .law = {}, .residuals = {}};
  fit.provenance = Provenance::datasheet;
  fit.law = {.bandwidth_share = row.efficiency, .launch = 0, .l2_gain = 1, .l2_reach = 1};
  return fit;
}

void add_collectives(GpuProfile& profile, std::span<const LinkRow> rows, double bandwidth) {
  for (const LinkRow& row : rows) {
    for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather,
                                  CollectiveOp::reduce_scatter, CollectiveOp::all_to_all}) {
      CollectiveFit fit{
          .kind = {op, row.ranks}, .law = {}, .residuals = scatter_of(row.efficiency)};
      fit.provenance = Provenance::datasheet;
      fit.law = {.latency = 0,
                 .bandwidth = bandwidth * row.efficiency.expected,
                 .ramp_bytes = 0,
                 .ramp = 1};
      profile.collectives.push_back(fit);
    }
  }
}

/// A ring sends in one direction; the catalog's link bandwidth sums both.
void add_collectives(GpuProfile& profile, const GpuSpec& gpu) {
  if (gpu.link_bandwidth) {
    add_collectives(profile, kLinkRows, gpu.link_bandwidth->value.value() / 2);
    return;
  }
  if (const auto rate = pcie_rate_of(gpu)) add_collectives(profile, kPcieRows, *rate);
}

void add_transfers(GpuProfile& profile, const GpuSpec& gpu) {
  const auto rate = gpu.host_link ? gpu.host_link->value.value() / 2 : pcie_rate_of(gpu);
  if (!rate) return;
  for (const TransferPath path :
       {TransferPath::host_to_device_pinned, TransferPath::device_to_host_pinned}) {
    TransferFit fit{.kind = path,
                    .law = {.latency = 0, .bandwidth = *rate * kTransfers.expected},
                    .residuals = scatter_of(kTransfers)};
    fit.provenance = Provenance::datasheet;
    profile.transfers.push_back(fit);
  }
}

}  // namespace

std::optional<double> pcie_rate_of(const GpuSpec& gpu) {
  for (const PcieRate& rate : kPcieRates) {
    if (gpu.pcie_generation && gpu.pcie_generation->value == rate.generation) {
      return rate.bytes_per_second;
    }
  }
  return std::nullopt;
}

GpuProfile datasheet_laws(const GpuSpec& gpu) {
  const Efficiency& matmul = matmul_efficiency(gpu);
  GpuProfile profile;
  profile.gpu = gpu.slug;
  profile.load = Load::sustained;
  profile.matmuls = {
      matmul_fit({.operand = DType::bf16}, matmul, 1),
      matmul_fit({.operand = DType::fp8}, matmul, kFp8OverHalf),
      matmul_fit({.operand = DType::fp4}, matmul, kFp4OverHalf),
      matmul_fit({.operand = DType::fp32}, certain(kMatmulFp32), 1),
  };
  for (const AttentionRow& row : kAttentionRows) {
    // An own row of a kernel comes beside the general one: nearest_fit prefers the kernel's name.
    if (row.capability && row.capability != gpu.compute_capability()) continue;
    for (const DType dtype : {DType::bf16, DType::fp8, DType::fp32}) {
      profile.attentions.push_back(attention_fit(row, dtype));
    }
  }
  for (const StreamRow& row : kStreamRows) profile.streams.push_back(stream_fit(row));
  add_collectives(profile, gpu);
  add_transfers(profile, gpu);
  profile.launches = {{LaunchPath::stream, {kLaunch}, {}, Provenance::datasheet}};
  return profile;
}

}  // namespace memest
