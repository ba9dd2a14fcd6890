#include "calibrate/fit_laws.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "memest/spec/gpu/law_parameters.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// Matrix products below are of single tokens or of launches, not of training steps.
constexpr std::int64_t kLeastMatmulSize = 64;
constexpr double kLeastMatmulSeconds = 20e-6;
/// Bytes at whose multiples rows begin that 16-bit kernels of today do not take.
constexpr std::int64_t kLeastAligned = 4;
/// Tokens.
constexpr std::int64_t kLeastSequence = 256;
/// About the time that fits to calls of every length give `power_time`.
constexpr double kShortestTellingPower = 5e-3;
/// Ten times what a launch takes.
constexpr double kLongestTellingLaunch = 25e-6;
/// From this message size on the rate of the largest is at most so far from the limit:
/// all-reduces of 16 GiB over those of 256 MiB on 8 GPUs are 1.21 (A100) and 1.11 (H200;
/// stas00/ml-engineering, network/README.md).
constexpr std::int64_t kLeastTellingMessage = 128 << 20;
constexpr double kLimitOverBestRate = 1.25;
/// Samples that differ in time alone differ less than those that differ in a size.
constexpr double kTimeWeight = 0.7;

double log_of(std::int64_t size) {
  return std::log(static_cast<double>(std::max<std::int64_t>(size, 1)));
}

/// Bytes a second that each GPU's link carries.
double bus_rate(const Call<CollectiveShape>& call) {
  return static_cast<double>(call.shape.bytes) * ring_factor(call.shape) / call.seconds;
}

double log_time(double seconds) { return kTimeWeight * std::log(seconds); }

template <class Law, std::size_t kCount>
void add_knobs(std::vector<Knob>& knobs, Law& law,
               const std::array<LawParameter<Law>, kCount>& parameters) {
  for (const LawParameter<Law>& parameter : parameters) {
    knobs.push_back({&(law.*parameter.value), parameter.low, parameter.high});
  }
}

template <class Law, std::size_t kCount>
std::vector<Knob> all_knobs(Law& law, const std::array<LawParameter<Law>, kCount>& parameters) {
  std::vector<Knob> knobs;
  add_knobs(knobs, law, parameters);
  return knobs;
}

bool has_pass(const std::vector<Call<MatmulShape>>& calls, MatmulPass pass) {
  return std::any_of(calls.begin(), calls.end(),
                     [pass](const auto& call) { return call.shape.pass == pass; });
}

/// The knob of `parameter` only.
template <class Law>
Knob knob_of(Law& law, const LawParameter<Law>& parameter) {
  return {&(law.*parameter.value), parameter.low, parameter.high};
}

}  // namespace

SampleFeatures features_of(const Call<MatmulShape>& call) {
  const MatmulShape& shape = call.shape;
  // Logarithms: between 128 and 256 rows lies as much as between 4,096 and 8,192. Passes and loads
  // are a factor e apart.
  return {log_of(shape.m), log_of(shape.n), log_of(shape.k),
          log_of(shape.batch) + (shape.pass == MatmulPass::forward ? 0 : 1) +
              (call.load == Load::burst ? 0 : 1),
          log_time(call.seconds)};
}
SampleFeatures features_of(const Call<AttentionShape>& call) {
  const AttentionShape& shape = call.shape;
  return {log_of(shape.batch * shape.heads), log_of(shape.seq_len), log_of(shape.head_dim),
          log_of(shape.heads) - log_of(shape.kv_heads), log_time(call.seconds)};
}
SampleFeatures features_of(const Call<StreamShape>& call) {
  return {log_of(call.shape.bytes), 0, 0, 0, log_time(call.seconds)};
}
SampleFeatures features_of(const Call<CollectiveShape>& call) {
  return {log_of(call.shape.bytes), 0, 0, 0, log_time(call.seconds)};
}
SampleFeatures features_of(const Call<TransferShape>& call) {
  return {log_of(call.shape.bytes), 0, 0, 0, log_time(call.seconds)};
}
SampleFeatures features_of(const Call<LaunchShape>& call) {
  return {0, 0, 0, 0, log_time(call.seconds)};
}

bool is_of_steps(const Call<MatmulShape>& call) {
  const MatmulShape& shape = call.shape;
  // Products that no kernel of wide loads takes follow no law of tiles
  // (time/laws/unaligned_rows.cpp).
  const bool is_aligned = !is_half(shape.operand) || row_alignment(shape) > kLeastAligned;
  return is_aligned && std::min({shape.m, shape.n, shape.k}) >= kLeastMatmulSize &&
         call.seconds >= kLeastMatmulSeconds;
}
bool is_of_steps(const Call<AttentionShape>& call) { return call.shape.seq_len >= kLeastSequence; }
bool is_of_steps(const Call<StreamShape>&) { return true; }
bool is_of_steps(const Call<CollectiveShape>&) { return true; }
bool is_of_steps(const Call<TransferShape>&) { return true; }
// The host has none: its calls take a nanosecond, which is below the law's range.
bool is_of_steps(const Call<LaunchShape>& call) { return call.seconds >= kLaunchParameters[0].low; }

MatmulLaw start_of(const std::vector<Call<MatmulShape>>& calls) {
  MatmulLaw law;
  if (!calls.empty() && calls.front().shape.cast_included) {
    law.cast = StreamLaw{.bandwidth_share = 0.8, .launch = 3e-6, .l2_gain = 1, .l2_reach = 1};
  }
  return law;
}
AttentionLaw start_of(const std::vector<Call<AttentionShape>>&) { return {}; }
StreamLaw start_of(const std::vector<Call<StreamShape>>&) { return {}; }
CollectiveLaw start_of(const std::vector<Call<CollectiveShape>>& calls) {
  CollectiveLaw law;
  // The search starts at the best rate and the shortest time that were seen.
  law.bandwidth = 0;
  for (const auto& call : calls) {
    law.latency = std::min(law.latency, call.seconds);
    law.bandwidth = std::max(law.bandwidth, bus_rate(call));
  }
  return law;
}
TransferLaw start_of(const std::vector<Call<TransferShape>>&) { return {}; }
LaunchLaw start_of(const std::vector<Call<LaunchShape>>&) { return {}; }

std::vector<Knob> knobs_of(MatmulLaw& law, const std::vector<Call<MatmulShape>>& calls,
                           const Machine&) {
  std::vector<Knob> knobs;
  const bool only_sustained = std::all_of(
      calls.begin(), calls.end(), [](const auto& call) { return call.load == Load::sustained; });
  const bool tell_power = std::any_of(calls.begin(), calls.end(), [](const auto& call) {
    return call.load == Load::sustained || call.seconds > kShortestTellingPower;
  });
  for (const LawParameter<TileLaw>& parameter : kTileParameters) {
    const bool of_power =
        parameter.value == &TileLaw::power_loss || parameter.value == &TileLaw::power_time;
    // Where all are under load, the loss is the same for every call and part of peak_share; in
    // calls too short to lose any, nothing says how much a longer one would.
    if (of_power && (only_sustained || !tell_power)) continue;
    if (parameter.value == &TileLaw::sustained_load) continue;
    knobs.push_back(knob_of(law.product, parameter));
  }
  if (only_sustained) law.product.power_loss = 0;
  const bool forward = has_pass(calls, MatmulPass::forward);
  if (forward && has_pass(calls, MatmulPass::data_gradient)) {
    knobs.push_back(knob_of(law, kPassParameters[0]));
  }
  if (forward && has_pass(calls, MatmulPass::weight_gradient)) {
    knobs.push_back(knob_of(law, kPassParameters[1]));
  }
  if (law.cast) {
    knobs.push_back(knob_of(*law.cast, kStreamParameters[0]));
    knobs.push_back(knob_of(*law.cast, kStreamParameters[1]));
  }
  return knobs;
}
std::vector<Knob> knobs_of(AttentionLaw& law, const std::vector<Call<AttentionShape>>& calls,
                           const Machine&) {
  std::vector<Knob> knobs;
  const bool one_head_dim = std::all_of(calls.begin(), calls.end(), [&](const auto& call) {
    return call.shape.head_dim == calls.front().shape.head_dim;
  });
  // With one head size the loss is a part of peak_share.
  if (one_head_dim) law.head_dim_loss = 0;
  for (const LawParameter<AttentionLaw>& parameter : kAttentionParameters) {
    if (one_head_dim && parameter.value == &AttentionLaw::head_dim_loss) continue;
    knobs.push_back(knob_of(law, parameter));
  }
  return knobs;
}
std::vector<Knob> knobs_of(StreamLaw& law, const std::vector<Call<StreamShape>>& calls,
                           const Machine& machine) {
  // Long kernels say nothing of a launch, and large ones nothing of the cache.
  const bool tell_launch = std::any_of(calls.begin(), calls.end(), [](const auto& call) {
    return call.seconds < kLongestTellingLaunch;
  });
  const bool tell_cache = std::any_of(calls.begin(), calls.end(), [&machine](const auto& call) {
    return static_cast<double>(call.shape.bytes) < machine.l2_bytes;
  });
  if (!tell_cache) law.l2_gain = 1;
  std::vector<Knob> knobs;
  for (const LawParameter<StreamLaw>& parameter : kStreamParameters) {
    const bool of_launch = parameter.value == &StreamLaw::launch;
    const bool of_cache =
        parameter.value == &StreamLaw::l2_gain || parameter.value == &StreamLaw::l2_reach;
    if ((of_launch && !tell_launch) || (of_cache && !tell_cache)) continue;
    knobs.push_back(knob_of(law, parameter));
  }
  return knobs;
}
std::vector<Knob> knobs_of(CollectiveLaw& law, const std::vector<Call<CollectiveShape>>& calls,
                           const Machine&) {
  std::vector<Knob> knobs = all_knobs(law, kCollectiveParameters);
  const auto largest =
      std::max_element(calls.begin(), calls.end(), [](const auto& left, const auto& right) {
        return std::pair(left.shape.bytes, bus_rate(left)) <
               std::pair(right.shape.bytes, bus_rate(right));
      });
  const double best = start_of(calls).bandwidth;
  // While the rate still grows, its slope and its limit can stand for each other.
  const bool still_grows = largest != calls.end() && bus_rate(*largest) >= best;
  if (!still_grows || largest->shape.bytes < kLeastTellingMessage) return knobs;
  for (Knob& knob : knobs) {
    if (knob.value == &law.bandwidth) knob.high = kLimitOverBestRate * best;
  }
  return knobs;
}
std::vector<Knob> knobs_of(TransferLaw& law, const std::vector<Call<TransferShape>>&,
                           const Machine&) {
  return all_knobs(law, kTransferParameters);
}
std::vector<Knob> knobs_of(LaunchLaw& law, const std::vector<Call<LaunchShape>>&, const Machine&) {
  return all_knobs(law, kLaunchParameters);
}

void limit_to_samples(MatmulLaw& law, const std::vector<Call<MatmulShape>>& calls,
                      const Machine& machine) {
  TileLaw cool = law.product;
  cool.power_loss = 0;
  double longest = 0;  // burst
  bool tells_power = false;
  for (const Call<MatmulShape>& call : calls) {
    // Under load the samples tell the loss itself.
    if (call.load == Load::sustained) return;
    longest = std::max(longest, seconds_of(cool, call.shape, machine, Load::burst));
    tells_power |= call.seconds > kShortestTellingPower;
  }
  if (tells_power) law.product.sustained_load = longest / (longest + cool.power_time);
}

double seconds_at(const MatmulLaw& law, const Call<MatmulShape>& call, const Machine& machine) {
  return seconds_of(law, call.shape, machine, call.load);
}
double seconds_at(const AttentionLaw& law, const Call<AttentionShape>& call,
                  const Machine& machine) {
  return seconds_of(law, call.shape, machine);
}
double seconds_at(const StreamLaw& law, const Call<StreamShape>& call, const Machine& machine) {
  return seconds_of(law, call.shape, machine);
}
double seconds_at(const CollectiveLaw& law, const Call<CollectiveShape>& call, const Machine&) {
  return seconds_of(law, call.shape);
}
double seconds_at(const TransferLaw& law, const Call<TransferShape>& call, const Machine&) {
  return seconds_of(law, call.shape);
}
double seconds_at(const LaunchLaw& law, const Call<LaunchShape>&, const Machine&) {
  return law.seconds;
}

}  // namespace memest
