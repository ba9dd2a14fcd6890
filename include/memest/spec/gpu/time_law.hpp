// Laws of kernel times: a few physical parameters each, fitted to samples of one GPU. Shares are of
// the datasheet, so that a law fitted on one GPU says something of its siblings.
//
// docs/calibration.md derives each. Evaluated in memest/time/kernel_law.hpp.
#pragma once

#include <optional>

namespace memest {

/// The figures of a datasheet that a law needs.
struct Machine {
  double multiprocessors = 0;
  double flops_per_second = 0;  ///< dense peak of the operand type
  double bytes_per_second = 0;  ///< of the device's memory
  double l2_bytes = 0;
};

/// A matrix product takes the best of a set of tiles and splits of k:
///   rate    = peak · peak_share / (1 + tile_loss · (1/tile_m + 1/tile_n))   over all
///   multiprocessors compute = waves · (2 · tile_m · tile_n · ⌈k/split⌉ / rate + prologue +
///   epilogue · tile area) traffic = (operands + result + split_traffic · partial results) /
///   (bandwidth · bandwidth_share) burst   = (compute^overlap + traffic^overlap)^(1/overlap) +
///   launch seconds = burst · (1 + power_loss · burst / (burst + power_time))
/// where waves = max(1, whole_waves · ⌈x⌉ + (1 − whole_waves) · x) of x = tiles / multiprocessors.
/// On a GPU that has long been busy sustained_load stands for burst / (burst + power_time).
struct TileLaw {
  double peak_share = 0.85;
  double tile_loss = 10;   ///< elements
  double prologue = 1e-6;  ///< seconds a tile
  double epilogue = 1e-6;  ///< seconds a tile of 128 × 256
  double bandwidth_share = 0.85;
  double overlap = 3;
  double launch = 3e-6;      ///< seconds
  double split_traffic = 1;  ///< times the partial results in fp32
  double power_loss = 0.1;
  double power_time = 5e-3;  ///< seconds
  /// 1 where samples were taken under load; of bursts alone what the longest lost, as nothing says
  /// that a longer one loses more.
  double sustained_load = 1;
  double whole_waves = 0.5;  ///< 1: a started wave costs a whole one; 0: the work is dealt evenly
};

/// A kernel bound by memory. The share `hit` of the traffic that the L2 cache serves falls with
/// size:
///   hit     = 1 / (1 + (bytes / (l2_reach · L2))⁴)
///   seconds = launch + bytes · ((1 − hit) + hit / l2_gain) / (bandwidth · bandwidth_share)
struct StreamLaw {
  double bandwidth_share = 0.85;
  double launch = 2e-6;  ///< seconds
  double l2_gain = 2;
  double l2_reach = 0.7;
};

/// The products of a linear layer: the forward's, and in its terms the others.
struct MatmulLaw {
  TileLaw product;
  double data_gradient = 1;  ///< time over that of the same product in the forward's layout
  double weight_gradient = 1;
  std::optional<StreamLaw> cast;  ///< of the left operand, where samples have it in their time
};

/// Fused attention:
///   compute = FLOPs / (peak · peak_share) · (s + half_length) / s · (1 + head_dim_loss / d)
///   path    = 4 · 128 · s · d / (peak · peak_share / multiprocessors) · path_share   of the last
///   row seconds = max(compute, path) + bytes / (bandwidth · bandwidth_share) + launch
/// FLOPs of causal attention are of the half that is computed.
struct AttentionLaw {
  double peak_share = 0.6;
  double half_length = 200;   ///< tokens
  double head_dim_loss = 10;  ///< elements
  double path_share = 1;
  double bandwidth_share = 0.8;
  double launch = 10e-6;  ///< seconds
};

/// A collective moves v = bytes · (the ring's factor) over each GPU's link:
///   seconds = latency + v / bandwidth · (1 + (ramp_bytes / v)^ramp)
struct CollectiveLaw {
  double latency = 15e-6;
  double bandwidth = 200e9;  ///< bytes a second
  double ramp_bytes = 10e6;
  double ramp = 0.5;
};

/// seconds = latency + bytes / bandwidth.
struct TransferLaw {
  double latency = 10e-6;
  double bandwidth = 25e9;  ///< bytes a second
};

/// An empty kernel, back to back.
struct LaunchLaw {
  double seconds = 2.5e-6;
};

}  // namespace memest
