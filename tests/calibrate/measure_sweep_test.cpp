// Measuring, without a device and without a clock: laws come back out of their own times, the
// budget holds, and an interrupted run that goes on is the run that was not interrupted.
#include "memest/calibrate/measure_sweep.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "lawful_backend.hpp"
#include "memest/calibrate/fit_profile.hpp"
#include "memest/reader/samples.hpp"

namespace memest {
namespace {

using Catch::Matchers::WithinRel;

const FitSettings kFit{.most_samples = kEverySample, .provenance = Provenance::measured};

/// A run with the backend's clock; stops before the `stop`-th step that it measures.
struct Run {
  LawfulBackend& backend;
  std::optional<std::size_t> stop = std::nullopt;
  std::vector<Sample> kept = {};               ///< handed over one by one
  std::vector<MeasureProgress> progress = {};  ///< likewise

  MeasureResult measure(const Sweep& sweep, Seconds budget, std::vector<Sample> before = {}) {
    const MeasureHooks hooks{
        .now = [this] { return backend.clock; },
        .interrupted = [this] { return stop && kept.size() >= *stop; },
        .begins = [this](const MeasureProgress& each) { progress.push_back(each); },
        .measured = [this](const Sample& sample) { kept.push_back(sample); }};
    return measure_sweep(backend, sweep, {"h100-sxm-80gb", budget, std::move(before)}, hooks);
  }
};

TEST_CASE("laws come back out of the times that they made, within the noise", "[calibrate]") {
  LawfulBackend backend;
  backend.noise = 0.01;
  const Sweep sweep = design_sweep(backend.as_device(), kFullBudget);
  const MeasureResult result = Run{backend}.measure(sweep, Seconds(1e6));
  CHECK(result.end == MeasureEnd::finished);
  CHECK(result.samples.size() == sweep.steps.size());
  const GpuProfile profile = fit_profile(h100(), result.samples, kFit).profile;
  CHECK(profile.matmuls.size() == 6);
  CHECK(profile.attentions.size() == 8);
  CHECK(profile.streams.size() > 40);
  CHECK(profile.collectives.size() == 12);
  CHECK(profile.transfers.size() == 5);
  CHECK(profile.launches.size() == 2);
  for (const MatmulFit& fit : profile.matmuls) CHECK(fit.residuals.mean_absolute < 0.02);
  for (const StreamFit& fit : profile.streams) CHECK(fit.residuals.mean_absolute < 0.02);
  // Shapes that no sweep has, under both loads.
  const auto holds = [&profile](const KernelShape& shape, Load load, double most) {
    INFO(text_of(shape) << ' ' << name_of(load));
    const auto predicted = predict(profile, h100(), shape, load);
    REQUIRE(predicted);
    CHECK_THAT(predicted->value(), WithinRel(std::visit(KnownLaws{load}, shape).value(), most));
  };
  for (const Load load : {Load::burst, Load::sustained}) {
    for (const MatmulPass pass :
         {MatmulPass::forward, MatmulPass::data_gradient, MatmulPass::weight_gradient}) {
      holds(MatmulShape{.pass = pass, .m = 8000, .n = 4000, .k = 5000}, load, 0.03);
      holds(MatmulShape{.pass = pass, .m = 30000, .n = 11000, .k = 9000}, load, 0.03);
    }
  }
  for (const KernelPass pass : {KernelPass::forward, KernelPass::backward}) {
    holds(AttentionShape{.kernel = kGpuAttention,
                         .pass = pass,
                         .batch = 3,
                         .heads = 24,
                         .kv_heads = 24,
                         .seq_len = 5000,
                         .head_dim = 128,
                         .value_head_dim = 128},
          Load::burst, 0.03);
  }
  holds(StreamShape{.op = StreamOp::softmax, .rows = 999, .columns = 9999, .bytes = 400'000'000},
        Load::burst, 0.02);
  holds(CollectiveShape{.gpus = 8, .bytes = 100'000'000}, Load::burst, 0.03);
  holds(TransferShape{.bytes = 50'000'000}, Load::burst, 0.02);
  holds(LaunchShape{}, Load::burst, 0.02);
}

TEST_CASE("a profile of a minute has every kind's law too", "[calibrate]") {
  LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), kQuickBudget);
  const MeasureResult result = Run{backend}.measure(sweep, Seconds(1e6));
  const GpuProfile profile = fit_profile(h100(), result.samples, kFit).profile;
  CHECK(profile.matmuls.size() == 4);  // without fp16
  CHECK(profile.attentions.size() == 4);
  CHECK(profile.streams.size() > 20);
  CHECK(profile.transfers.size() == 5);
  for (const MatmulFit& fit : profile.matmuls) CHECK(fit.residuals.mean_absolute < 0.03);
  for (const StreamFit& fit : profile.streams) CHECK(fit.residuals.mean_absolute < 0.03);
}

TEST_CASE("a slow device ends in its time, with every kind begun", "[calibrate]") {
  for (const double slowness : {1.0, 2.0, 5.0, 20.0}) {
    LawfulBackend backend;
    backend.slowness = slowness;
    const Seconds begin = backend.clock;
    const Sweep sweep = design_sweep(backend.as_device(), kQuickBudget);
    const MeasureResult result = Run{backend}.measure(sweep, kQuickBudget);
    CHECK(backend.clock - begin <= kQuickBudget);
    CHECK(result.samples.size() + result.steps_left == sweep.steps.size());
    CHECK((result.end == MeasureEnd::finished) == (result.steps_left == 0));
  }
}

TEST_CASE("a run that is interrupted anywhere and goes on measures what one run does",
          "[calibrate]") {
  LawfulBackend whole;
  const Sweep sweep = design_sweep(whole.as_device(), Seconds(8));
  const std::string all = write_samples(Run{whole}.measure(sweep, Seconds(1e6)).samples);
  REQUIRE(sweep.steps.size() > 10);
  for (std::size_t stop = 0; stop < sweep.steps.size(); ++stop) {
    LawfulBackend backend;
    Run first{backend, stop};
    const MeasureResult part = first.measure(sweep, Seconds(1e6));
    CHECK(part.end == MeasureEnd::interrupted);
    CHECK(part.steps_left == sweep.steps.size() - stop);
    CHECK(first.kept.size() == stop);
    Run second{backend};
    const MeasureResult rest = second.measure(sweep, Seconds(1e6), first.kept);
    CHECK(rest.end == MeasureEnd::finished);
    CHECK(second.kept.size() == sweep.steps.size() - stop);
    CHECK(write_samples(rest.samples) == all);
  }
}

TEST_CASE("a device that fails has handed over what it measured until then", "[calibrate]") {
  LawfulBackend backend;
  backend.fails_after = 5;
  const Sweep sweep = design_sweep(backend.as_device(), Seconds(8));
  Run run{backend};
  CHECK_THROWS_AS(run.measure(sweep, Seconds(1e6)), EnvironmentError);
  CHECK(run.kept.size() == 5);
}

TEST_CASE("a kernel that differs is left out and named, and the others are measured",
          "[calibrate]") {
  LawfulBackend backend;
  backend.differs = [](const KernelShape& shape) {
    const auto* attention = std::get_if<AttentionShape>(&shape);
    return attention != nullptr && attention->pass == KernelPass::backward;
  };
  const Sweep sweep = design_sweep(backend.as_device(), kQuickBudget);
  const MeasureResult result = Run{backend}.measure(sweep, Seconds(1e6));
  CHECK(result.end == MeasureEnd::finished);
  CHECK(result.steps_left == 0);
  CHECK_FALSE(result.wrong.empty());
  CHECK(result.samples.size() + result.wrong.size() == sweep.steps.size());
  const GpuProfile profile = fit_profile(h100(), result.samples, kFit).profile;
  CHECK_FALSE(profile.attentions.empty());
  for (const AttentionFit& fit : profile.attentions) CHECK(fit.kind.pass == KernelPass::forward);
  const Diagnostics warnings = warnings_of(sweep, backend.as_device(), result);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].message.starts_with(std::to_string(result.wrong.size()) +
                                        " shapes had to be left out, as a kernel differs from its "
                                        "reference: attention bf16 backward"));
}

TEST_CASE("progress counts up to the whole sweep, and its time left down to nothing",
          "[calibrate]") {
  LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), Seconds(8));
  Run run{backend};
  const MeasureResult all = run.measure(sweep, Seconds(1e6));
  Run again{backend};
  again.measure(sweep, Seconds(1e6), all.samples);
  REQUIRE(again.progress.size() == 1);  // nothing is left to do
  CHECK(again.progress[0].done == sweep.steps.size());
  CHECK(again.progress[0].left == Seconds(0));
  REQUIRE(run.progress.size() == sweep.steps.size() + 1);
  for (std::size_t i = 0; i < sweep.steps.size(); ++i) {
    CHECK(run.progress[i].done == i);
    CHECK(run.progress[i].of == sweep.steps.size());
    CHECK(run.progress[i].left > Seconds(0));
    CHECK(run.progress[i].next->shape == sweep.steps[i].shape);
  }
  CHECK(run.progress.back().next == nullptr);
  CHECK_THAT(run.progress.front().left.value(), WithinRel(sweep.expected().value(), 1e-9));
}

TEST_CASE("the first under load warms the device, the others find it warm", "[calibrate]") {
  LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), kQuickBudget);
  Run{backend}.measure(sweep, Seconds(1e6));
  bool busy = false;
  for (const RulerSettings& ruler : backend.rulers) {
    if (ruler.load == Load::sustained) {
      CHECK(ruler.sustained_for == warm_up(sweep.ruler, busy));
    }
    busy = ruler.load == Load::sustained;
  }
}

std::vector<std::string> texts_of(const Diagnostics& warnings) {
  std::vector<std::string> texts;
  for (const Diagnostic& warning : warnings) {
    CHECK(warning.severity == Severity::warning);
    texts.push_back(warning.message + " | " + warning.hint);
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("a good run has no warning", "[calibrate]") {
  LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), Seconds(8));
  const MeasureResult result = Run{backend}.measure(sweep, Seconds(1e6));
  CHECK(texts_of(warnings_of(sweep, backend.as_device(), result)).empty());
}

TEST_CASE("every warning says what is wrong and what to do", "[calibrate]") {
  LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), Seconds(8));
  const std::size_t steps = sweep.steps.size();
  const auto warned = [&](const MeasureResult& result) {
    return texts_of(warnings_of(sweep, backend.as_device(), result));
  };
  backend.device.busy_share = 0.4;
  CHECK(warned({}) == Texts{"others kept the device busy for 40 % of the time before it was "
                            "measured: times may be too long | measure again when nothing else "
                            "runs on it"});
  backend.device.busy_share = 0.04;
  CHECK(warned({}).empty());

  backend.throttles = true;
  const MeasureResult throttled = Run{backend}.measure(sweep, Seconds(1e6));
  CHECK(warned(throttled) ==
        Texts{"the clock fell under nine tenths of its highest during " + std::to_string(steps) +
              " shapes of " + std::to_string(steps) +
              ", whose slow samples were dropped | a GPU that throttles in bursts is hot, or its "
              "power is limited"});

  CHECK(warned({.end = MeasureEnd::out_of_time, .samples = {}, .steps_left = 1}) ==
        Texts{"the time was up before 1 shape of the sweep | --seconds N gives it more"});
  CHECK(warned({.end = MeasureEnd::interrupted, .samples = {}, .steps_left = 7}) ==
        Texts{"interrupted before 7 shapes of the sweep | the same command goes on from there"});

  MeasureResult impossible;
  impossible.samples.emplace_back();
  impossible.samples.back().shape = MatmulShape{.m = 4096, .n = 4096, .k = 4096};
  impossible.samples.back().seconds = Seconds(100e-6);  // 1.37 PFLOP/s
  CHECK(warned(impossible) ==
        Texts{"1 shape ran faster than H100 SXM5 80GB can compute: matmul bf16 forward 4096 × 4096 "
              "× 4096 | is the device that GPU? --gpu NAME says which"});
  impossible.samples.back().seconds = Seconds(150e-6);  // 0.92 PFLOP/s
  CHECK(warned(impossible).empty());
  impossible.samples.back().clock_mhz = 1500;  // at which 0.81 PFLOP/s are possible
  CHECK(warned(impossible).size() == 1);
}

TEST_CASE("kinds with too few samples for a law are named", "[calibrate]") {
  LawfulBackend backend;
  const Sweep sweep = design_sweep(backend.as_device(), kQuickBudget);
  std::vector<Sample> samples = Run{backend}.measure(sweep, Seconds(1e6)).samples;
  CHECK(missing_laws(fit_profile(h100(), samples, kFit).profile, h100(), samples).empty());
  Sample lonely;
  lonely.shape = TransferShape{.path = TransferPath::managed_migration, .bytes = 1 << 20};
  lonely.seconds = Seconds(1e-3);
  samples = {lonely, lonely};
  CHECK(texts_of(missing_laws(fit_profile(h100(), samples, kFit).profile, h100(), samples)) ==
        Texts{"2 shapes of kinds with fewer than three samples made no law: managed-migration 1.00 "
              "MiB, managed-migration 1.00 MiB | --seconds N measures more of them"});
}

TEST_CASE("shapes that lacked memory are counted and named", "[calibrate]") {
  const LawfulBackend backend;
  Sweep sweep;
  for (const std::int64_t rows : {1, 2, 3, 4}) {
    sweep.left_out.push_back(StreamShape{.rows = rows, .columns = 1 << 20});
  }
  SweepDevice device = backend.as_device();
  device.facts.free_memory = Bytes(3 * kGiB);
  CHECK(
      texts_of(warnings_of(sweep, device, {})) ==
      Texts{"4 shapes did not fit into the free memory (3.00 GiB of 80.00 GiB) and had to be left "
            "out: copy bf16 forward 1 × 1048576, copy bf16 forward 2 × 1048576, copy bf16 forward "
            "3 × 1048576, ... | measure again when others have freed theirs"});
}

}  // namespace
}  // namespace memest
