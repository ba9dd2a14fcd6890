#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

struct Tile {
  double m;
  double n;
};

/// Threadblock shapes of cuBLAS's kernels, by their names (ampere_bf16_s16816gemm_bf16_256x128_...,
/// sm90_xmma_gemm_..._tilesize128x256x64_...) and of CUTLASS's profiler.
constexpr std::array kTiles = {Tile{256, 128}, Tile{128, 256}, Tile{128, 128}, Tile{256, 64},
                               Tile{64, 256},  Tile{128, 64},  Tile{64, 128},  Tile{64, 64},
                               Tile{256, 256}, Tile{192, 128}, Tile{128, 192}, Tile{32, 64},
                               Tile{64, 32}};
/// Parts of k that are summed by different multiprocessors.
constexpr std::array kSplits = {1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0};
/// Elements of k that a tile's main loop takes at once.
constexpr double kStepOfK = 64;
/// NVFP4: half a byte an element, and an fp8 scale for every 16 (NVIDIA Transformer Engine, NVFP4).
constexpr double kNvfp4Bytes = 0.5 + 1.0 / 16.0;
/// Elements of the tile whose epilogue the law's parameter is of.
constexpr double kEpilogueTile = 128.0 * 256.0;

struct ProductSizes {
  double m;
  double n;
  double k;
  double batch;
};

/// Bytes an element of an operand, its scales included where they are part of the traffic.
double operand_bytes(DType operand) {
  return operand == DType::fp4 ? kNvfp4Bytes : static_cast<double>(size_of(operand));
}

double started(double whole, double part) { return std::ceil(whole / part); }

/// Seconds in which the multiprocessors compute, with the best tile for the split.
double compute_seconds(const TileLaw& law, const ProductSizes& sizes, double split,
                       const Machine& machine) {
  // k is padded to whole steps of the main loop, m and n to whole tiles: the padding costs its
  // time.
  const double steps = started(sizes.k / split, kStepOfK) * kStepOfK;
  const double peak = machine.flops_per_second / machine.multiprocessors * law.peak_share;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    // A tile loads m + n values a step for m · n products: the ratio is 1/m + 1/n.
    const double rate = peak / (1 + law.tile_loss * (1 / tile.m + 1 / tile.n));
    const double area = tile.m * tile.n;
    const double of_a_tile =
        2 * area * steps / rate + law.prologue + law.epilogue * area / kEpilogueTile;
    const double tiles = started(sizes.m, tile.m) * started(sizes.n, tile.n) * sizes.batch * split;
    const double load = tiles / machine.multiprocessors;
    // 1.1 waves cost 2 where whole_waves is 1, and 1.1 where it is 0.
    const double waves =
        load <= 1 ? 1 : law.whole_waves * std::ceil(load) + (1 - law.whole_waves) * load;
    best = std::min(best, waves * of_a_tile);
  }
  return best;
}

/// The best split of k.
double seconds_alone(const TileLaw& law, const MatmulShape& shape, const Machine& machine) {
  const ProductSizes sizes{static_cast<double>(shape.m), static_cast<double>(shape.n),
                           static_cast<double>(shape.k), static_cast<double>(shape.batch)};
  const double bandwidth = machine.bytes_per_second * law.bandwidth_share;
  const double bytes = bytes_of(shape);
  // Split-k sums partial results of fp32 in memory; it pays where a result has fewer tiles than the
  // GPU has multiprocessors.
  const double partial = law.split_traffic * 4 * sizes.m * sizes.n * sizes.batch;  // fp32
  double best = std::numeric_limits<double>::infinity();
  for (const double split : kSplits) {
    if (split > 1 && sizes.k < split * kStepOfK) break;
    const double compute = compute_seconds(law, sizes, split, machine);
    const double traffic = (bytes + (split > 1 ? split * partial : 0)) / bandwidth;
    // (compute^q + traffic^q)^(1/q), without overflow.
    const double longer = std::max(compute, traffic);
    if (longer >= best) continue;
    const double ratio = std::min(compute, traffic) / longer;
    best = std::min(best, longer * std::pow(1 + std::pow(ratio, law.overlap), 1 / law.overlap));
  }
  return best;
}

}  // namespace

double seconds_of(const TileLaw& law, const MatmulShape& shape, const Machine& machine, Load load) {
  const double burst = seconds_alone(law, shape, machine) + law.launch;
  // Clocks fall under load after milliseconds: a call much shorter than power_time ends before.
  const double loaded =
      load == Load::sustained ? law.sustained_load : burst / (burst + law.power_time);
  return burst * (1 + law.power_loss * loaded);
}

double seconds_of(const MatmulLaw& law, const MatmulShape& shape, const Machine& machine,
                  Load load) {
  double seconds = seconds_of(law.product, shape, machine, load);
  if (shape.pass == MatmulPass::data_gradient) seconds *= law.data_gradient;
  if (shape.pass == MatmulPass::weight_gradient) seconds *= law.weight_gradient;
  if (law.cast && shape.cast_included) {
    StreamShape cast{.op = StreamOp::cast, .rows = shape.m * shape.batch, .columns = shape.k};
    const auto wide = static_cast<double>(size_of(DType::bf16));
    // A scale of the whole operand reads it once more, for its largest value.
    const double reads = shape.scaling == OperandScaling::per_tensor ? 2 : 1;
    const double elements = static_cast<double>(cast.rows) * static_cast<double>(cast.columns);
    cast.bytes = std::llround(elements * (reads * wide + operand_bytes(shape.operand)));
    seconds += seconds_of(*law.cast, cast, machine);
  }
  return seconds;
}

double bytes_of(const MatmulShape& shape) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const double operand = operand_bytes(shape.operand);
  const double result = static_cast<double>(size_of(shape.result)) * (shape.accumulates ? 2 : 1);
  return static_cast<double>(shape.batch) * (operand * (m * k + k * n) + result * m * n);
}

std::int64_t row_alignment(const MatmulShape& shape) {
  // Rows as a linear layer's tensors lie: X[m, k] · W[n, k], dY[m, k] · W[k, n], X[k, m] and
  // dY[k, n].
  const bool by_weight = shape.pass == MatmulPass::weight_gradient;
  const bool forward = shape.pass == MatmulPass::forward;
  const std::int64_t left = by_weight ? shape.m : shape.k;
  const std::int64_t right = forward ? shape.k : shape.n;
  const std::int64_t operand = size_of(shape.operand);
  const std::int64_t result = size_of(shape.result);
  constexpr std::int64_t kWidest = 16;
  return std::gcd(std::gcd(left * operand, right * operand), std::gcd(shape.n * result, kWidest));
}

double flops_of(const MatmulShape& shape) {
  return 2 * static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
         static_cast<double>(shape.n) * static_cast<double>(shape.k);
}

}  // namespace memest
