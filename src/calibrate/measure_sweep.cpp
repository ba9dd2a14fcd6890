#include "memest/calibrate/measure_sweep.hpp"

#include <algorithm>
#include <utility>

namespace memest {
namespace {

bool holds(const std::vector<Sample>& samples, const SweepStep& step) {
  return std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) {
    return sample.load == step.load && sample.shape == step.shape;
  });
}

/// How far the clock is from what was expected.
class Pace {
 public:
  Pace(Seconds begin, Seconds budget) : begin_(begin), budget_(budget) {}

  void add(Seconds expected, Seconds now) {
    expected_ += expected;
    spent_ = now - begin_;
  }
  /// Real seconds for one that was expected.
  /// Expectations are off by a common factor, most of all on a GPU that others use: the rest is
  /// taken to be off by as much.
  [[nodiscard]] double factor() const { return expected_ > Seconds(0) ? spent_ / expected_ : 1; }
  [[nodiscard]] bool allows(Seconds expected) const {
    return spent_ + expected * std::max(factor(), 1.0) <= budget_;
  }

 private:
  Seconds begin_;
  Seconds budget_;
  Seconds expected_{0};
  Seconds spent_{0};
};

Seconds sum_of(const std::vector<const SweepStep*>& steps) {
  Seconds sum{0};
  for (const SweepStep* step : steps) sum += step->expected;
  return sum;
}

Sample sample_of(const SweepStep& step, const Measurement& measured, const std::string& gpu) {
  Sample sample;
  sample.shape = step.shape;
  sample.seconds = measured.median;
  sample.load = step.load;
  sample.clock_mhz = measured.clock_mhz;
  sample.throttled = measured.throttled;
  sample.gpu = gpu;
  sample.source = kMeasuredSource;
  return sample;
}

}  // namespace

MeasureResult measure_sweep(Backend& backend, const Sweep& sweep, const MeasureRequest& request,
                            const MeasureHooks& hooks) {
  MeasureResult result;
  result.samples = request.before;
  std::vector<const SweepStep*> steps;
  for (const SweepStep& step : sweep.steps) {
    if (!holds(request.before, step)) steps.push_back(&step);
  }
  result.steps_left = steps.size();
  Seconds expected = sum_of(steps);
  Pace pace(hooks.now(), request.budget * kShareForMeasuring);
  bool busy = false;
  const auto progress = [&](const SweepStep* next) {
    hooks.begins({sweep.steps.size() - result.steps_left, sweep.steps.size(),
                  expected * pace.factor(), next});
  };
  for (const SweepStep* step : steps) {
    if (hooks.interrupted()) {
      result.end = MeasureEnd::interrupted;
      return result;
    }
    // A clock ahead of its expectation is not trusted: the factor counts as 1 at least.
    if (!pace.allows(step->expected)) {
      result.end = MeasureEnd::out_of_time;
      continue;  // a shorter one may still find its time
    }
    progress(step);
    RulerSettings ruler = sweep.ruler;
    ruler.load = step->load;
    ruler.sustained_for = warm_up(sweep.ruler, busy);
    // Behind another sustained step the GPU is still warm.
    busy = step->load == Load::sustained;
    if (auto differs = backend.difference(step->shape)) {
      if (result.wrong.empty()) result.difference = std::move(*differs);
      result.wrong.push_back(step->shape);
    } else {
      const Measurement measured = backend.measure(step->shape, ruler);
      result.samples.push_back(sample_of(*step, measured, request.gpu));
      hooks.measured(result.samples.back());
    }
    --result.steps_left;
    expected -= step->expected;
    pace.add(step->expected, hooks.now());
  }
  progress(nullptr);
  return result;
}

}  // namespace memest
