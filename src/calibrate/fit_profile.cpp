#include "memest/calibrate/fit_profile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "calibrate/choose_samples.hpp"
#include "calibrate/fit_laws.hpp"
#include "calibrate/least_squares.hpp"
#include "memest/spec/gpu/margin.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// Relative error at which a sample begins to count as an outlier: the repeatability of published
/// tables (docs/calibration.md).
constexpr double kOutlier = 0.03;
/// A kind with fewer samples than this gets no law. A launch has no size: one says all.
template <class Shape>
constexpr std::size_t kLeastSamples = std::is_same_v<Shape, LaunchShape> ? 1 : 3;

/// How far predictions lie from `calls`.
template <class Shape, class Law>
LawResiduals residuals_of(const Law& law, const std::vector<Call<Shape>>& calls,
                          const Machine& machine) {
  LawResiduals result;
  double predicted_sum = 0;
  double measured_sum = 0;
  std::vector<double> measured_over;
  for (const Call<Shape>& call : calls) {
    const double predicted = seconds_at(law, call, machine);
    predicted_sum += predicted;
    measured_sum += call.seconds;
    result.mean_absolute +=
        std::abs(predicted / call.seconds - 1) / static_cast<double>(calls.size());
    measured_over.push_back(call.seconds / predicted - 1);
  }
  if (calls.empty()) return result;
  // Errors of single calls cancel in a step, an error of the sum does not.
  result.bias = predicted_sum / measured_sum - 1;
  result.low = quantile(measured_over, 0.1);
  result.high = quantile(std::move(measured_over), 0.9);
  return result;
}

/// The samples of one kind of call.
template <class Shape>
struct SampleGroup {
  std::vector<Call<Shape>> calls;
  std::vector<const Sample*> samples;  ///< of the same
};

template <class Shape>
using Groups = std::map<decltype(kind_of(std::declval<Shape>())), SampleGroup<Shape>>;

template <class Shape>
Groups<Shape> groups_of(const std::vector<Sample>& samples) {
  Groups<Shape> groups;
  for (const Sample& sample : samples) {
    const Shape* shape = std::get_if<Shape>(&sample.shape);
    if (shape == nullptr) continue;
    const Call<Shape> call{*shape, sample.seconds.value(), sample.load};
    if (!is_of_steps(call)) continue;
    SampleGroup<Shape>& group = groups[kind_of(*shape)];
    group.calls.push_back(call);
    group.samples.push_back(&sample);
  }
  std::erase_if(groups,
                [](const auto& entry) { return entry.second.calls.size() < kLeastSamples<Shape>; });
  return groups;
}

/// Whether this kind shares the samples of all; one that few GPUs run takes none from the others.
bool shares_samples(const MatmulKind& kind) { return kind.operand != DType::fp4; }
template <class Kind>
bool shares_samples(const Kind&) {
  return true;
}

/// How many samples a kind may take where all that share, or all that do not, together take at
/// most `most`: equal shares, and what small kinds leave goes to the others.
template <class Shape>
std::size_t share_of(const Groups<Shape>& groups, bool sharing, std::size_t most) {
  std::vector<std::size_t> sizes;
  for (const auto& [kind, group] : groups) {
    if (shares_samples(kind) == sharing) sizes.push_back(group.calls.size());
  }
  // From the smallest kind on: one that has fewer than an equal share takes all, and the share of
  // the rest grows. Sizes 5, 40, 90 share 100 as 5, 40, 55.
  std::sort(sizes.begin(), sizes.end());
  std::size_t left = most;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t share = left / (sizes.size() - i);
    if (sizes[i] > share) return share;
    left -= sizes[i];
  }
  return most;
}

/// Number of a kind's `count` samples that a law may be fitted to.
std::size_t without_held_out(std::size_t count, JudgeBy judge) {
  constexpr std::size_t kHeldOutOf = 5;
  const bool holds_out = judge == JudgeBy::held_out_samples && count >= kLeastToHoldOut;
  return holds_out ? count - count / kHeldOutOf : count;
}

class ProfileFitter {
 public:
  ProfileFitter(const GpuSpec& gpu, const std::vector<Sample>& samples, const FitSettings& settings)
      : gpu_(gpu), samples_(samples), settings_(settings) {
    profile_.gpu = gpu.slug;
    const bool only_sustained =
        !samples.empty() && std::all_of(samples.begin(), samples.end(), [](const Sample& sample) {
          return sample.load == Load::sustained;
        });
    profile_.load = only_sustained ? Load::sustained : Load::burst;
  }

  std::vector<Sample> choose() && {
    only_chooses_ = true;
    fit_everything();
    return std::move(fitted_);
  }

  ProfileFit fit() && {
    fit_everything();
    for (const Sample& sample : samples_) {
      const std::string source =
          sample.license.empty() ? sample.source : sample.source + " (" + sample.license + ")";
      std::vector<std::string>& sources = profile_.origin.sources;
      const bool known = std::find(sources.begin(), sources.end(), source) != sources.end();
      if (!known && !sample.source.empty()) sources.push_back(source);
    }
    for (const Sample& sample : fitted_) lines_of(sample.file).push_back(sample.line);
    for (SampleLines& file : profile_.fitted) std::sort(file.lines.begin(), file.lines.end());
    return {std::move(profile_), std::move(fitted_)};
  }

 private:
  void fit_everything() {
    fit_all<MatmulShape>(profile_.matmuls);
    fit_all<AttentionShape>(profile_.attentions);
    fit_all<StreamShape>(profile_.streams);
    fit_all<CollectiveShape>(profile_.collectives);
    fit_all<TransferShape>(profile_.transfers);
    fit_all<LaunchShape>(profile_.launches);
  }

  template <class Shape, class Fits>
  void fit_all(Fits& fits) {
    const Groups<Shape> groups = groups_of<Shape>(samples_);
    for (const auto& [kind, group] : groups) {
      const auto machine = machine_for(group.calls.front().shape);
      if (!machine) continue;
      fits.push_back({kind, {}, {}, settings_.provenance});
      const std::size_t share =
          share_of<Shape>(groups, shares_samples(kind), settings_.most_samples);
      const std::size_t most = without_held_out(group.calls.size(), settings_.judge);
      fit_one(fits.back(), group, *machine, std::min(share, most));
    }
  }

  template <class Fit, class Shape>
  void fit_one(Fit& fit, const SampleGroup<Shape>& group, const Machine& machine,
               std::size_t share) {
    std::vector<SampleFeatures> features;
    for (const Call<Shape>& call : group.calls) features.push_back(features_of(call));
    const std::vector<std::size_t> chosen = choose_spread(features, share);
    std::vector<Call<Shape>> fitted;
    std::vector<Call<Shape>> others;
    for (std::size_t i = 0; i < group.calls.size(); ++i) {
      const bool is_chosen = std::find(chosen.begin(), chosen.end(), i) != chosen.end();
      (is_chosen ? fitted : others).push_back(group.calls[i]);
      if (is_chosen) fitted_.push_back(*group.samples[i]);
    }
    if (only_chooses_) return;
    auto& law = fit.law;
    law = start_of(fitted);
    // Logarithms of ratios: a time that is twice too long weighs as much as one half too short.
    const auto log_ratio = [&](std::size_t row) {
      return std::log(seconds_at(law, fitted[row], machine) / fitted[row].seconds);
    };
    fit_knobs(knobs_of(law, fitted, machine), fitted.size(), log_ratio, kOutlier);
    limit_to_samples(law, fitted, machine);
    // Residuals of samples that the fit has not seen, where there are any: those of fitted ones are
    // too good.
    const bool by_others = settings_.judge != JudgeBy::fitted_samples && !others.empty();
    fit.residuals = residuals_of(law, by_others ? others : fitted, machine);
    const auto [shortest, longest] = std::minmax_element(
        fitted.begin(), fitted.end(),
        [](const auto& left, const auto& right) { return left.seconds < right.seconds; });
    fit.residuals.shortest = shortest->seconds;
    fit.residuals.longest = longest->seconds;
    fit.residuals.fitted = static_cast<std::int64_t>(fitted.size());
    fit.residuals.tested = by_others ? static_cast<std::int64_t>(others.size()) : 0;
  }

  std::vector<std::int64_t>& lines_of(const std::string& file) {
    for (SampleLines& known : profile_.fitted) {
      if (known.file == file) return known.lines;
    }
    return profile_.fitted.emplace_back(SampleLines{file, {}}).lines;
  }

  /// The machine for operands that the shape names; streams and transfers need no rate.
  template <class Shape>
  [[nodiscard]] std::optional<Machine> machine_for(const Shape& shape) const {
    if constexpr (std::is_same_v<Shape, MatmulShape>) {
      return machine_of(gpu_, shape.operand, shape.tensor_float);
    } else if constexpr (std::is_same_v<Shape, AttentionShape>) {
      return machine_of(gpu_, shape.dtype);
    } else {
      return machine_of(gpu_, DType::fp32);
    }
  }

  const GpuSpec& gpu_;
  const std::vector<Sample>& samples_;
  const FitSettings& settings_;
  GpuProfile profile_;
  std::vector<Sample> fitted_;
  bool only_chooses_ = false;
};

}  // namespace

std::vector<Sample> choose_samples(const GpuSpec& gpu, const std::vector<Sample>& samples,
                                   const FitSettings& settings) {
  return ProfileFitter(gpu, samples, settings).choose();
}

ProfileFit fit_profile(const GpuSpec& gpu, const std::vector<Sample>& samples,
                       const FitSettings& settings) {
  return ProfileFitter(gpu, samples, settings).fit();
}

}  // namespace memest
