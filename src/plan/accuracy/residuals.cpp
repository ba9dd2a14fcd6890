#include "memest/plan/residuals.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <variant>

#include "memest/spec/framework.hpp"
#include "plan/accuracy/rounded_share.hpp"

namespace memest {

double rounded_up(double share) {
  constexpr double kNoise = 1e-9;  // of doubles, so that 26 % stays 26 %
  if (share <= 0) return 0;
  constexpr double kLeastStep = 1e-4;
  // Two significant digits: 0.0263 becomes 0.027, 0.00123 becomes 0.0013.
  const double step = std::max(kLeastStep, std::pow(10, std::floor(std::log10(share)) - 1));
  return std::ceil(share / step - kNoise) * step;
}

namespace {

/// Below so many records the tenth that is beyond a 90th percentile is no record at all.
constexpr std::size_t kLeastRecords = 10;
/// Least number of mixtures, whose percentile is then nearly their largest: among dense models they
/// would widen those.
constexpr std::size_t kLeastMixtures = 2;

/// (measured − predicted) / predicted, of whole bytes.
double excess(const std::variant<Int128, double>& measured, Int128 predicted) {
  return static_cast<double>(std::get<Int128>(measured) - predicted) /
         static_cast<double>(predicted);
}

/// One run's distances, as shares of what was predicted.
struct Residual {
  RunKind kind;
  double below = 0;  ///< of the allocated peak, a replay's of the reserved one
  double above = 0;  ///< of the reserved peak
};

std::optional<Residual> residual_of(const ValidatedRun& run, EstimateMethod method) {
  const auto measured = [&run](Metric metric) -> const Comparison* {
    const auto found = std::find_if(run.comparisons.begin(), run.comparisons.end(),
                                    [metric](const Comparison& comparison) {
                                      return comparison.metric == metric && comparison.part.empty();
                                    });
    return found == run.comparisons.end() ? nullptr : &*found;
  };
  const Comparison* allocated = measured(Metric::allocated_peak_bytes);
  const Comparison* reserved = measured(Metric::reserved_peak_bytes);
  if (!run.kind || allocated == nullptr || reserved == nullptr) return std::nullopt;
  if (method == EstimateMethod::replay) {
    if (!reserved->is_predicted()) return std::nullopt;
    const double above = excess(reserved->measured, std::get<Int128>(reserved->predicted));
    return Residual{.kind = *run.kind, .below = -above, .above = above};
  }
  if (!run.closed_form) return std::nullopt;
  const Int128 predicted{run.closed_form->value()};
  return Residual{.kind = *run.kind,
                  .below = -excess(allocated->measured, predicted),
                  .above = excess(reserved->measured, predicted)};
}

Margin margin_over(const std::vector<Residual>& residuals) {
  std::vector<double> below;
  std::vector<double> above;
  for (const Residual& residual : residuals) {
    below.push_back(residual.below);
    above.push_back(residual.above);
  }
  Margin margin;
  // All records lie above the low end, and nine of ten below the high one.
  margin.low = rounded_up(quantile(std::move(below), 1));
  margin.high = rounded_up(quantile(std::move(above), 0.9));
  margin.records = static_cast<int>(residuals.size());
  margin.recomputes = residuals.front().kind.recomputes;
  margin.scale = residuals.front().kind.scale;
  margin.compiled = residuals.front().kind.compiled;
  return margin;
}

/// The parts of each scale, eager and compiled, with and without recompute.
struct RunPart {
  RunScale scale = RunScale::one_gpu;
  bool recomputes = false;
  bool compiled = false;
};
constexpr std::array kRunParts = {RunPart{RunScale::one_gpu, false},
                                  RunPart{RunScale::one_gpu, true},
                                  RunPart{RunScale::one_gpu, false, true},
                                  RunPart{RunScale::one_gpu, true, true},
                                  RunPart{RunScale::several_gpus, false},
                                  RunPart{RunScale::several_gpus, true},
                                  RunPart{RunScale::several_gpus, false, true},
                                  RunPart{RunScale::several_gpus, true, true},
                                  RunPart{RunScale::offloading, false},
                                  RunPart{RunScale::offloading, true},
                                  RunPart{RunScale::offloading, false, true},
                                  RunPart{RunScale::offloading, true, true}};

std::vector<Residual> of_implementation(const std::vector<Residual>& all, Framework implementation,
                                        LayerSpec layers) {
  std::vector<Residual> own;
  std::copy_if(all.begin(), all.end(), std::back_inserter(own), [&](const Residual& residual) {
    return residual.kind.implementation == implementation && residual.kind.layers == layers;
  });
  return own;
}

/// Takes the mixtures of every implementation that has enough of them out of `all`: units of
/// experts are reserved otherwise than those of dense layers.
std::vector<std::vector<Residual>> split_mixtures(std::vector<Residual>& all) {
  std::vector<std::vector<Residual>> split;
  for (const Framework implementation : frameworks()) {
    for (const LayerSpec layers : {LayerSpec::local, LayerSpec::te}) {
      std::vector<Residual> own = of_implementation(all, implementation, layers);
      std::erase_if(own, [](const Residual& residual) { return !residual.kind.mixture; });
      if (own.size() < kLeastMixtures) continue;
      std::erase_if(all, [&](const Residual& residual) {
        return residual.kind.mixture && residual.kind.implementation == implementation &&
               residual.kind.layers == layers;
      });
      split.push_back(std::move(own));
    }
  }
  return split;
}

void append_margins(const std::vector<ValidatedRun>& runs, EstimateMethod method,
                    std::vector<Margin>& margins) {
  const auto append = [&](const std::vector<Residual>& residuals) {
    margins.push_back(margin_over(residuals));
    margins.back().method = method;
  };
  for (const RunPart& part : kRunParts) {
    std::vector<Residual> all;
    for (const ValidatedRun& run : runs) {
      const std::optional<Residual> residual = residual_of(run, method);
      const bool belongs = residual && residual->kind.recomputes == part.recomputes &&
                           residual->kind.scale == part.scale &&
                           residual->kind.compiled == part.compiled;
      if (belongs) all.push_back(*residual);
    }
    const std::vector<std::vector<Residual>> mixtures = split_mixtures(all);
    if (!all.empty()) append(all);
    const auto append_own = [&](const std::vector<Residual>& own) {
      append(own);
      margins.back().implementation = own.front().kind.implementation;
      margins.back().layers = own.front().kind.layers;
    };
    for (const Framework implementation : frameworks()) {
      for (const LayerSpec layers : {LayerSpec::local, LayerSpec::te}) {
        const std::vector<Residual> own = of_implementation(all, implementation, layers);
        if (own.size() >= kLeastRecords) append_own(own);
      }
    }
    for (const std::vector<Residual>& own : mixtures) {
      append_own(own);
      margins.back().mixture = true;
    }
  }
}

}  // namespace

std::vector<Margin> margins_of(const std::vector<ValidatedRun>& runs) {
  std::vector<Margin> margins;
  for (const EstimateMethod method : {EstimateMethod::closed_form, EstimateMethod::replay}) {
    append_margins(runs, method, margins);
  }
  return margins;
}

}  // namespace memest
