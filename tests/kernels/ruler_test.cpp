#include "kernels/harness/ruler.hpp"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <random>
#include <vector>

#include "kernels/harness/clock_watch.hpp"
#include "kernels/harness/stopping_rule.hpp"

using Catch::Approx;
using memest::Load;
using memest::Measurement;
using memest::RulerSettings;
using memest::Seconds;
using namespace memest::kernels;

namespace {

/// A device that is not real: a call takes what `seconds_a_call` says, by how long it has been busy
/// since its last rest.
class FakeDevice : public Stopwatch {
 public:
  std::function<double(double busy)> seconds_a_call = [](double) { return 1e-4; };
  std::function<double(double busy)> clock = [](double) { return 1980.0; };

  Seconds run(std::int64_t calls) override {
    ++runs;
    most_calls = std::max(most_calls, calls);
    const double time = seconds_a_call(busy) * static_cast<double>(calls);
    clock_now_ = clock(busy);
    busy += time;
    worked += time;
    return Seconds(time);
  }
  void rest(Seconds time) override {
    rested += time.value();
    longest_rest = std::max(longest_rest, time.value());
    busy = 0;
  }
  double clock_mhz() override { return clock_now_; }

  double busy = 0;
  double worked = 0;
  double rested = 0;
  double longest_rest = 0;
  int runs = 0;
  std::int64_t most_calls = 0;

 private:
  double clock_now_ = 0;
};

}  // namespace

TEST_CASE("a constant time is measured exactly, with the least samples that may be believed") {
  for (const double seconds : {3e-6, 1e-4, 0.02}) {
    FakeDevice device;
    device.seconds_a_call = [=](double) { return seconds; };
    const Measurement measured = measure(device, {});
    CHECK(measured.median.value() == Approx(seconds));
    CHECK(measured.low == measured.high);
    CHECK(measured.samples >= 10);
    CHECK(measured.samples <= 26);  // 50 ms in samples of 2 ms
    CHECK(measured.clock_mhz == 1980);
    CHECK_FALSE(measured.throttled);
  }
}

TEST_CASE("a sample lasts two milliseconds, and no call is split") {
  FakeDevice device;
  device.seconds_a_call = [](double) { return 1e-5; };
  measure(device, {});
  CHECK(device.most_calls >= 200);
  CHECK(device.most_calls <= 201);

  FakeDevice slow;
  slow.seconds_a_call = [](double) { return 0.1; };
  measure(slow, {});
  CHECK(slow.most_calls == 1);
}

TEST_CASE("a call too short for a sample is repeated only so often") {
  FakeDevice device;
  device.seconds_a_call = [](double) { return 1e-9; };
  RulerSettings settings;
  settings.shortest = Seconds(1e-5);
  measure(device, settings);
  CHECK(device.most_calls == kMostCalls);
}

TEST_CASE("noise is sampled until the median is known as asked, and the truth is inside") {
  std::mt19937_64 generator(7);
  std::normal_distribution<double> noise(1, 0.02);
  FakeDevice device;
  device.seconds_a_call = [&](double) { return 1e-3 * noise(generator); };
  const Measurement measured = measure(device, {});
  CHECK(measured.median.value() == Approx(1e-3).epsilon(0.005));
  CHECK((measured.high - measured.low).value() <= 2 * 0.005 * measured.median.value());
  CHECK(measured.samples > 10);
}

TEST_CASE("noise that never settles ends at the longest time, its interval wide") {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> noise(0.5, 1.5);
  FakeDevice device;
  device.seconds_a_call = [&](double) { return 1e-2 * noise(generator); };
  RulerSettings settings;
  settings.longest = Seconds(0.5);
  const Measurement measured = measure(device, settings);
  CHECK(device.worked < 0.6);
  CHECK((measured.high - measured.low).value() > 0.01 * measured.median.value());
}

TEST_CASE("a shape of a second a call gets the samples that fit") {
  FakeDevice device;
  device.seconds_a_call = [](double) { return 1.0; };
  const Measurement measured = measure(device, {});
  CHECK(measured.samples == 2);
  CHECK(measured.median.value() == 1);
}

TEST_CASE("bursts rest, and sustained load does not") {
  // A part that slows by a third after a second of work.
  const auto slows = [](double busy) { return busy < 1 ? 1e-3 : 1.5e-3; };
  FakeDevice device;
  device.seconds_a_call = slows;
  const Measurement burst = measure(device, {.load = Load::burst});
  CHECK(burst.median.value() == Approx(1e-3));
  CHECK(device.rested > 5 * device.worked);
  CHECK(device.longest_rest <= kLongestRest.value());

  FakeDevice warm;
  warm.seconds_a_call = slows;
  const Measurement sustained = measure(warm, {.load = Load::sustained});
  CHECK(sustained.median.value() == Approx(1.5e-3));
  CHECK(warm.rested == 0);
  CHECK(warm.worked > 3);
}

TEST_CASE("bursts drop the samples of a throttled clock and say so") {
  int run = 0;
  FakeDevice device;
  device.clock = [&](double) { return ++run % 3 == 0 ? 1200.0 : 1980.0; };
  device.seconds_a_call = [&](double) {
    return run % 3 == 2 ? 1.65e-3 : 1e-3;
  };  // run is one behind
  const Measurement measured = measure(device, {.load = Load::burst});
  CHECK(measured.throttled);
  CHECK(measured.high.value() == Approx(1e-3));
  CHECK(measured.clock_mhz < 1980);
}

TEST_CASE("sustained load keeps the samples of a throttled clock") {
  FakeDevice device;
  device.clock = [](double busy) { return busy < 3.1 ? 1980.0 : 1200.0; };
  device.seconds_a_call = [](double busy) { return busy < 3.1 ? 1e-3 : 1.65e-3; };
  const Measurement measured = measure(device, {.load = Load::sustained, .shortest = Seconds(1)});
  CHECK(measured.throttled);
  CHECK(measured.median.value() == Approx(1.65e-3));
}

TEST_CASE("a clock that nobody knows throttles nothing") {
  const std::vector<TimedSample> samples = {{1e-3, 0}, {2e-3, 0}};
  CHECK_FALSE(is_throttled(samples[0], samples));
  CHECK(at_full_clock(samples).size() == 2);
  CHECK(mean_clock_mhz(samples) == 0);
}

TEST_CASE("the share of the clock that counts as throttled begins under nine tenths") {
  const std::vector<TimedSample> samples = {{1, 1000}, {1, 900}, {1, 899}};
  CHECK_FALSE(is_throttled(samples[1], samples));
  CHECK(is_throttled(samples[2], samples));
  CHECK(at_full_clock(samples).size() == 2);
}

TEST_CASE("enough asks for samples, for time and for the median") {
  const RulerSettings settings;
  const std::vector<double> nine(9, 1e-3);
  const std::vector<double> ten(10, 1e-3);
  std::vector<double> loose = ten;
  for (std::size_t i = 0; i < loose.size(); ++i) loose[i] += 1e-5 * static_cast<double>(i);
  CHECK(enough(nine, Seconds(0.1), settings) == Enough::no);
  CHECK(enough(ten, Seconds(0.01), settings) == Enough::no);
  CHECK(enough(loose, Seconds(0.1), settings) == Enough::no);
  CHECK(enough(ten, Seconds(0.1), settings) == Enough::known);
  CHECK(enough(nine, Seconds(1.5), settings) == Enough::too_long);
}
