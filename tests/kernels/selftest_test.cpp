#include "memest/kernels/selftest.hpp"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <stdexcept>

#include "memest/kernels/traffic.hpp"

using namespace memest;
using Catch::Approx;

namespace {

Measurement exactly(Seconds time) {
  Measurement measured;
  measured.median = measured.low = measured.high = time;
  return measured;
}

/// A device that is not real: copies run at 1 TB/s, other kernels at `share` of that, and a spin
/// takes what is asked and `late` more.
class FakeBackend : public Backend {
 public:
  double share = 1;
  double error = 0;
  Seconds late{0};

  [[nodiscard]] DeviceFacts facts() const override { return {}; }
  [[nodiscard]] bool can_measure(const KernelShape& shape) const override {
    const auto* stream = std::get_if<StreamShape>(&shape);
    return stream != nullptr && stream->dtype == DType::bf16;
  }
  std::vector<KernelCheck> check(const KernelShape&) override {
    return {{.result = "y", .error = error, .tolerance = 0.01}};
  }
  Measurement measure(const KernelShape& shape, const RulerSettings&) override {
    const auto& stream = std::get<StreamShape>(shape);
    const double rate = stream.op == StreamOp::copy ? 1e12 : 1e12 * share;
    return exactly(stream_traffic(stream).value() / BytesPerSecond(rate));
  }
  Measurement measure_spin(Seconds time, const RulerSettings&) override {
    return exactly(time + late);
  }
};

Selftest run(Backend& backend) {
  return selftest_of(backend, {}, [](const KernelShape&) {});
}

}  // namespace

TEST_CASE("a device that does what it should passes, and its rates are its own") {
  FakeBackend backend;
  const Selftest selftest = run(backend);
  CHECK(selftest.passed());
  REQUIRE_FALSE(selftest.rates.empty());
  CHECK(std::get<StreamShape>(selftest.rates.front().shape).op == StreamOp::copy);
  for (const RateVerdict& rate : selftest.rates) {
    CHECK(rate.rate == Approx(1e12));
    CHECK(rate.share_of_copy == Approx(1));
  }
  const auto targets =
      std::count_if(selftest.rates.begin(), selftest.rates.end(),
                    [](const RateVerdict& rate) { return rate.target.has_value(); });
  CHECK(targets == 8);
}

TEST_CASE("a wrong kernel, a result that is no number and a late ruler each fail") {
  FakeBackend wrong;
  wrong.error = 0.02;
  CHECK_FALSE(run(wrong).passed());
  wrong.error = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(run(wrong).passed());

  FakeBackend late;
  late.late = Seconds(9e-6);
  const Selftest selftest = run(late);
  CHECK_FALSE(selftest.passed());
  CHECK_FALSE(selftest.ruler.front().passed());  // 20 µs: 8 µs and 2.5 % are allowed
  CHECK(selftest.ruler.back().passed());         // 5 ms
}

TEST_CASE("a kernel under its share of the copy fails, one without a target does not") {
  FakeBackend slow;
  slow.share = 0.9;
  for (const RateVerdict& rate : run(slow).rates) {
    CHECK(rate.passed() == (!rate.target || *rate.target <= 0.9));
  }
}

namespace {

/// One that multiplies too: `flops` a second by the kernel that a library ranks first, a tenth more
/// by its best.
class MultiplyingBackend : public FakeBackend {
 public:
  double flops = 0;
  double clock_mhz = 0;

  [[nodiscard]] bool can_measure(const KernelShape& shape) const override {
    const auto* matmul = std::get_if<MatmulShape>(&shape);
    return FakeBackend::can_measure(shape) || (matmul != nullptr && matmul->operand == DType::bf16);
  }
  Measurement measure(const KernelShape& shape, const RulerSettings& settings) override {
    const auto* matmul = std::get_if<MatmulShape>(&shape);
    if (matmul == nullptr) return FakeBackend::measure(shape, settings);
    Measurement measured = exactly(matmul_flops(*matmul) / FlopsPerSecond(flops));
    measured.clock_mhz = clock_mhz;
    return measured;
  }
  Measurement measure_best(const MatmulShape& shape, const RulerSettings& settings) override {
    Measurement measured = measure(shape, settings);
    measured.median = measured.median / 1.1;
    return measured;
  }
};

/// 1.05 TB/s, 100 TFLOP/s at 1500 MHz.
GpuSpec datasheet() {
  GpuSpec gpu;
  gpu.memory_bandwidth.emplace().value = BytesPerSecond(1.05e12);
  gpu.peak[DType::bf16].value = FlopsPerSecond(100e12);
  gpu.boost_clock.emplace().value = Hertz(1500e6);
  return gpu;
}

Selftest run_with(MultiplyingBackend& backend, const GpuSpec& gpu) {
  SelftestSettings settings;
  settings.datasheet = &gpu;
  return selftest_of(backend, settings, [](const KernelShape&) {});
}

}  // namespace

TEST_CASE("the copy and the best product are held to the datasheet") {
  GpuSpec gpu = datasheet();
  MultiplyingBackend backend;
  backend.flops = 72e12;  // its best: 0.792 of the peak
  const Selftest good = run_with(backend, gpu);
  CHECK(good.passed());
  CHECK(good.rates.front().datasheet_target == 0.90);
  CHECK(good.rates.front().share_of_datasheet.value() == Approx(1 / 1.05));
  CHECK(std::count_if(good.rates.begin(), good.rates.end(), [](const RateVerdict& rate) {
          return rate.datasheet_target == 0.78 && rate.share_of_datasheet.value() == Approx(0.792);
        }) == 1);
  backend.flops = 70e12;
  CHECK_FALSE(run_with(backend, gpu).passed());
  backend.flops = 72e12;
  gpu.memory_bandwidth->value = BytesPerSecond(1.2e12);  // of which the copy has 0.83
  CHECK_FALSE(run_with(backend, gpu).passed());
}

TEST_CASE("a rate over what the clock allows is no measurement") {
  const GpuSpec gpu = datasheet();
  MultiplyingBackend backend;
  backend.flops = 80e12;  // its best: 0.88 of the peak
  backend.clock_mhz = 1400;
  CHECK(run_with(backend, gpu).passed());
  backend.clock_mhz = 1300;  // at which 86.7 TFLOP/s are possible
  const Selftest broken = run_with(backend, gpu);
  CHECK_FALSE(broken.passed());
  CHECK_FALSE(broken.rates.back().possible());
  CHECK(broken.rates.front().possible());
}

TEST_CASE("where times are not judged, kernels alone decide") {
  FakeBackend late;
  late.late = Seconds(1e-3);
  late.share = 0.1;
  SelftestSettings settings;
  settings.judges_times = false;
  const auto nothing = [](const KernelShape&) {};
  const Selftest passed = selftest_of(late, settings, nothing);
  CHECK(passed.passed());
  for (const RateVerdict& rate : passed.rates) CHECK_FALSE(rate.target);
  late.error = 1;
  CHECK_FALSE(selftest_of(late, settings, nothing).passed());
}

TEST_CASE("a selftest can be interrupted") {
  FakeBackend backend;
  CHECK_THROWS_AS(
      selftest_of(backend, {}, [](const KernelShape&) { throw std::runtime_error("stop"); }),
      std::runtime_error);
}

TEST_CASE("the host passes its own checks") {
  const auto backend = open_host_backend();
  SelftestSettings settings;
  settings.rows = 8;
  settings.columns = 512;
  settings.largest_matmul = 64;
  settings.ruler = {.shortest = Seconds(0), .longest = Seconds(1e-3), .least_samples = 1};
  const Selftest selftest = selftest_of(*backend, settings, [](const KernelShape&) {});
  CHECK(selftest.kernels.size() > 60);
  for (const KernelVerdict& verdict : selftest.kernels) CHECK(verdict.passed());
  CHECK(selftest.ruler.size() == 3);
  CHECK(selftest.rates.size() > 20);
}
