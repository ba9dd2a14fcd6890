// Samples to a profile: each kind of kernel gets its law, fitted to few samples and judged by the
// others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/gpu/sample.hpp"

namespace memest {

/// Which samples the residuals of a law are of: those that it was fitted to; those that
/// FitSettings::most_samples left; or a fifth of its kind, held out for them where there are
/// kLeastToHoldOut. Where a kind has no others, those that it was fitted to.
enum class JudgeBy : std::uint8_t { fitted_samples, other_samples, held_out_samples };

/// Four fifths of so many are still twice the parameters of the largest law.
inline constexpr std::size_t kLeastToHoldOut = 40;

/// FitSettings::most_samples where a sweep has chosen the samples already.
inline constexpr std::size_t kEverySample = std::numeric_limits<std::size_t>::max();

struct FitSettings {
  /// Samples that laws are fitted to at most, over all kinds of one operation (matmul, attention,
  /// ...) together; of products in fp4 as many more.
  std::size_t most_samples = 200;
  JudgeBy judge = JudgeBy::fitted_samples;
  Provenance provenance = Provenance::public_;
};

struct ProfileFit {
  GpuProfile profile;
  std::vector<Sample> fitted;  ///< the samples that its laws were fitted to
};

/// The samples that fit_profile() would fit laws to.
std::vector<Sample> choose_samples(const GpuSpec& gpu, const std::vector<Sample>& samples,
                                   const FitSettings& settings);

/// The laws that `samples` of one GPU allow; a kind with too few samples gets none. `gpu` is that
/// GPU's datasheet. Equal samples give equal profiles.
ProfileFit fit_profile(const GpuSpec& gpu, const std::vector<Sample>& samples,
                       const FitSettings& settings = {});

}  // namespace memest
