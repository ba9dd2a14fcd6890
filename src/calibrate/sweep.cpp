#include "memest/calibrate/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>

#include "calibrate/sweep_shapes.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"

namespace memest {
namespace {

constexpr RulerSettings kQuickRuler{.relative_error = 0.01,
                                    .shortest = Seconds(0.01),
                                    .longest = Seconds(0.05),
                                    .least_samples = 5};
constexpr RulerSettings kFullRuler{.relative_error = 0.005,
                                   .shortest = Seconds(0.05),
                                   .longest = Seconds(0.3),
                                   .least_samples = 10};
constexpr Seconds kQuickLongestCall{0.02};
constexpr Seconds kFullLongestCall{0.05};

/// The block under sustained load takes this part of it at most...
constexpr double kShareForSustained = 0.2;
/// ... and comes after this part, when every kind has some samples.
constexpr double kShareBeforeSustained = 0.4;
/// The law of a product under load has one parameter more than in bursts.
constexpr std::size_t kSustainedOfEach = 8;
/// Long enough for a product to be slowed by the power that it takes.
constexpr Seconds kShortestSustained{100e-6};

/// Seconds to make and fill operands and to check a kernel once.
constexpr Seconds kSetUp{0.03};

// The ruler's constants (docs/calibration.md, "How a time is measured").
constexpr Seconds kSample{0.002};
constexpr double kMostCalls = 2048;
constexpr double kRestShare = 9;
constexpr Seconds kLongestRest{0.2};
/// Runs before the first sample, in samples.
constexpr double kTrials = 2.5;
/// A quiet device needs the least number of samples, a disturbed one several times as many.
constexpr double kDisturbed = 1.5;

RulerSettings ruler_for(Seconds budget) {
  return budget <= kQuickBudget ? kQuickRuler : kFullRuler;
}

/// Seconds of a step's samples, their rests with them.
Seconds time_of(Seconds call, const RulerSettings& ruler) {
  // As measure() in kernels/harness/ruler.cpp will do it, with the time that is expected in place
  // of the one that is seen.
  const double calls = std::clamp(std::ceil(kSample / call), 1.0, kMostCalls);
  const Seconds sample = call * calls;
  const double wanted =
      std::max(static_cast<double>(ruler.least_samples), std::ceil(ruler.shortest / sample));
  const double samples =
      std::min(wanted * kDisturbed, std::max(std::ceil(ruler.longest / sample), 1.0));
  const Seconds rest =
      ruler.load == Load::burst ? std::min(sample * kRestShare, kLongestRest) : Seconds(0);
  return kSetUp + sample * (samples + kTrials) + rest * (samples - 1);
}

SweepStep burst_step(const SweepDevice& device, const RulerSettings& ruler, KernelShape shape) {
  const Seconds call = *expected_call(device.gpu, shape);
  return {std::move(shape), Load::burst, call, time_of(call, ruler)};
}

/// Where in the rounds a kind's i-th shape stands. The first three, without which it has no law,
/// come in the first two rounds, whatever its weight.
double place_in_round(std::size_t i, double weight) {
  constexpr std::size_t kForLaw = 3;
  // Shape i of a kind of weight w stands at (i + 1/2) / w, so a kind of weight 4 is measured four
  // times as often; the third of weight 1.25 stands at 2.
  constexpr double kLeastWeight = 1.25;
  return (static_cast<double>(i) + 0.5) / (i < kForLaw ? std::max(weight, kLeastWeight) : weight);
}

/// The shapes of all kinds in turn.
std::vector<KernelShape> in_rounds(const std::vector<SweepKind>& kinds) {
  struct Entry {
    double place;
    const KernelShape* shape;
  };
  std::vector<Entry> entries;
  for (const SweepKind& kind : kinds) {
    for (std::size_t i = 0; i < kind.shapes.size(); ++i) {
      entries.push_back({place_in_round(i, kind.weight), &kind.shapes[i]});
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.place < b.place; });
  std::vector<KernelShape> shapes;
  for (const Entry& entry : entries) shapes.push_back(*entry.shape);
  return shapes;
}

/// Drops what the device cannot measure; keeps apart what only lacks free memory.
std::vector<KernelShape> measurable(const SweepDevice& device, std::vector<KernelShape> shapes,
                                    std::vector<KernelShape>& left_out) {
  std::erase_if(shapes, [&](const KernelShape& shape) {
    if (device.can_measure(shape)) return false;
    // Backends ask for twice a call's operands.
    if (footprint(shape) * 2 > device.facts.free_memory) left_out.push_back(shape);
    return true;
  });
  return shapes;
}

/// The first products of every type, long enough, once more.
std::vector<SweepStep> sustained_block(const std::vector<SweepStep>& burst, RulerSettings ruler,
                                       Seconds budget) {
  ruler.load = Load::sustained;
  std::vector<SweepStep> block;
  std::map<MatmulKind, std::size_t> taken;
  Seconds spent{0};
  for (const SweepStep& step : burst) {
    const auto* matmul = std::get_if<MatmulShape>(&step.shape);
    if (matmul == nullptr || step.call < kShortestSustained) continue;
    std::size_t& count = taken[kind_of(*matmul)];
    const Seconds time = time_of(step.call, ruler) + warm_up(ruler, !block.empty());
    if (count == kSustainedOfEach || spent + time > budget) continue;
    ++count;
    spent += time;
    block.push_back({step.shape, Load::sustained, step.call, time});
  }
  return block;
}

}  // namespace

Seconds Sweep::expected() const {
  Seconds sum{0};
  for (const SweepStep& step : steps) sum += step.expected;
  return sum;
}

Seconds warm_up(const RulerSettings& ruler, bool busy_before) {
  constexpr double kAgain = 0.1;
  return busy_before ? ruler.sustained_for * kAgain : ruler.sustained_for;
}

Sweep design_sweep(const SweepDevice& device, Seconds budget) {
  const bool every_type = budget > kQuickBudget;
  const SweepScope scope{every_type, every_type ? kFullLongestCall : kQuickLongestCall};
  Sweep sweep{.steps = {}, .left_out = {}, .ruler = ruler_for(budget)};
  std::vector<SweepStep> all;
  for (KernelShape& shape :
       measurable(device, in_rounds(sweep_kinds(device, scope)), sweep.left_out)) {
    all.push_back(burst_step(device, sweep.ruler, std::move(shape)));
  }
  const Seconds available = budget * kShareForMeasuring;
  const std::vector<SweepStep> sustained =
      sustained_block(all, sweep.ruler, available * kShareForSustained);
  Seconds left = available;
  for (const SweepStep& step : sustained) left -= step.expected;
  bool block_is_due = true;
  const auto add_block = [&] {
    if (block_is_due) sweep.steps.insert(sweep.steps.end(), sustained.begin(), sustained.end());
    block_is_due = false;
  };
  const Seconds due = left * (1 - kShareBeforeSustained);
  for (SweepStep& step : all) {
    // A long step that does not fit any more leaves its time to shorter ones.
    if (step.expected > left) continue;
    if (left < due) add_block();
    left -= step.expected;
    sweep.steps.push_back(std::move(step));
  }
  add_block();
  return sweep;
}

}  // namespace memest
