// Samples made by a law are given back by the law that is fitted to them.
#include "memest/calibrate/fit_profile.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "memest/reader/catalog.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

using Catch::Matchers::WithinRel;

const GpuSpec& a100() {
  static const GpuSpec kGpu = find_gpu("a100-sxm-80gb").value();
  return kGpu;
}

std::vector<MatmulShape> shapes() {
  std::vector<MatmulShape> result;
  for (std::int64_t m = 1024; m <= 32768; m *= 2) {
    for (const std::int64_t n : {2560, 4096, 8192, 28672}) {
      for (const std::int64_t k : {2048, 4096, 14336}) {
        result.push_back({.m = m, .n = n, .k = k});
      }
    }
  }
  return result;
}

std::vector<Sample> samples_of(const MatmulLaw& law, Load load) {
  const Machine machine = *machine_of(a100(), DType::bf16);
  std::vector<Sample> samples;
  for (const MatmulShape& shape : shapes()) {
    samples.push_back({.shape = shape,
                       .seconds = Seconds(seconds_of(law, shape, machine, load)),
                       .load = load,
                       .gpu = "a100",
                       .source = "made",
                       .license = "",
                       .file = "made.csv",
                       .line = static_cast<std::int64_t>(samples.size()) + 2});
  }
  return samples;
}

TEST_CASE("samples made by a law are predicted by the one fitted to a part of them",
          "[calibrate]") {
  MatmulLaw law;
  law.product = {.peak_share = 0.8, .tile_loss = 15, .power_loss = 0.15, .whole_waves = 0.7};
  const ProfileFit fit = fit_profile(a100(), samples_of(law, Load::burst),
                                     {.most_samples = 40, .judge = JudgeBy::other_samples});
  REQUIRE(fit.profile.matmuls.size() == 1);
  const LawResiduals& residuals = fit.profile.matmuls[0].residuals;
  CHECK(residuals.fitted == 40);
  CHECK(residuals.tested == static_cast<std::int64_t>(shapes().size()) - 40);
  CHECK(residuals.mean_absolute < 0.01);
  CHECK(std::abs(residuals.bias) < 0.01);
}

TEST_CASE("a kind with many samples holds a fifth out to be judged by, one with few none",
          "[calibrate]") {
  const FitSettings settings{.most_samples = kEverySample, .judge = JudgeBy::held_out_samples};
  std::vector<Sample> samples = samples_of({}, Load::burst);
  REQUIRE(samples.size() == 72);
  const ProfileFit many = fit_profile(a100(), samples, settings);
  CHECK(many.profile.matmuls.at(0).residuals.fitted == 58);
  CHECK(many.profile.matmuls.at(0).residuals.tested == 14);
  CHECK(many.profile.matmuls.at(0).residuals.mean_absolute < 0.01);
  CHECK(many.fitted.size() == 58);
  samples.resize(kLeastToHoldOut - 1);
  const ProfileFit few = fit_profile(a100(), samples, settings);
  CHECK(few.profile.matmuls.at(0).residuals.fitted == 39);
  CHECK(few.profile.matmuls.at(0).residuals.tested == 0);
}

TEST_CASE("under load the law has no loss of its own: it is in the rate", "[calibrate]") {
  const ProfileFit fit = fit_profile(a100(), samples_of({}, Load::sustained), {});
  CHECK(fit.profile.load == Load::sustained);
  CHECK(fit.profile.matmuls.at(0).law.product.power_loss == 0);
  CHECK(fit.profile.matmuls.at(0).residuals.mean_absolute < 0.01);
}

TEST_CASE("of bursts a law says no more of load than the longest lost", "[calibrate]") {
  MatmulLaw law;
  law.product = {.power_loss = 0.5, .power_time = 40e-3};
  std::vector<Sample> samples = samples_of(law, Load::burst);
  const FitSettings settings{.most_samples = kEverySample};
  const ProfileFit fit = fit_profile(a100(), samples, settings);
  const TileLaw& fitted = fit.profile.matmuls.at(0).law.product;
  TileLaw cool = fitted;
  cool.power_loss = 0;
  const Machine machine = *machine_of(a100(), DType::bf16);
  double loss = 0;
  for (const MatmulShape& shape : shapes()) {
    loss = std::max(loss, seconds_of(fitted, shape, machine, Load::burst) /
                                  seconds_of(cool, shape, machine, Load::burst) -
                              1);
  }
  CHECK_THAT(fitted.power_loss * fitted.sustained_load, WithinRel(loss, 1e-9));
  CHECK(fitted.sustained_load < 1);
  // One sample under load tells the whole loss.
  const std::vector<Sample> under_load = samples_of(law, Load::sustained);
  samples.insert(samples.end(), under_load.begin(), under_load.end());
  CHECK(fit_profile(a100(), samples, settings).profile.matmuls.at(0).law.product.sustained_load ==
        1);
}

TEST_CASE("a profile lists the lines that it was fitted to, and their sources", "[calibrate]") {
  const ProfileFit fit = fit_profile(a100(), samples_of({}, Load::burst), {.most_samples = 10});
  REQUIRE(fit.profile.fitted.size() == 1);
  CHECK(fit.profile.fitted[0].file == "made.csv");
  CHECK(fit.profile.fitted[0].lines.size() == 10);
  CHECK(fit.fitted.size() == 10);
  CHECK(fit.profile.origin.sources == std::vector<std::string>{"made"});
}

TEST_CASE("samples that name no source leave none behind", "[calibrate]") {
  std::vector<Sample> samples = samples_of({}, Load::burst);
  for (Sample& sample : samples) sample.source.clear();
  CHECK(fit_profile(a100(), samples, {}).profile.origin.sources.empty());
}

TEST_CASE("a handful of samples makes no law", "[calibrate]") {
  std::vector<Sample> samples = samples_of({}, Load::burst);
  samples.resize(2);
  CHECK(fit_profile(a100(), samples, {}).profile.matmuls.empty());
}

TEST_CASE("kinds share the samples, and what a small kind leaves goes to the others",
          "[calibrate]") {
  std::vector<Sample> samples = samples_of({}, Load::burst);
  for (std::size_t i = 0; i < 10; ++i) {
    Sample other = samples[7 * i];
    std::get<MatmulShape>(other.shape).operand = DType::fp16;
    samples.push_back(other);
    std::get<MatmulShape>(other.shape).operand = DType::fp4;
    samples.push_back(other);
  }
  GpuSpec gpu = a100();
  gpu.peak[DType::fp4] = gpu.peak.at(DType::bf16);
  const ProfileFit fit = fit_profile(gpu, samples, {.most_samples = 50});
  REQUIRE(fit.profile.matmuls.size() == 3);
  CHECK(fit.profile.matmuls[0].residuals.fitted == 40);  // bf16
  CHECK(fit.profile.matmuls[1].residuals.fitted == 10);  // fp16
  // No step runs in fp4, so it takes none from the others.
  CHECK(fit.profile.matmuls[2].kind.operand == DType::fp4);
  CHECK(fit.profile.matmuls[2].residuals.fitted == 10);
}

}  // namespace
}  // namespace memest
