#include "memest/plan/whole_training.hpp"

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

constexpr double kSecondsOfHour = 3600;

Spread times(const Spread& spread, double factor) {
  return {spread.expected * factor, spread.low * factor, spread.high * factor};
}

}  // namespace

std::variant<WholeTraining, Unavailable> whole_training_of(const PlanVerdict& plan, double tokens) {
  if (const auto* reason = std::get_if<Unavailable>(&plan.time)) return *reason;
  const auto& time = std::get<TimeEstimate>(plan.time);
  const auto gpus = static_cast<double>(plan.candidate.gpus);
  const double seconds = tokens / (time.tokens_per_second_per_gpu * gpus);
  WholeTraining training;
  // All steps are taken to be off alike: the interval of a step is that of the training.
  training.seconds = {seconds, seconds * (time.low / time.step), seconds * (time.high / time.step)};
  training.gpu_hours = times(training.seconds, gpus / kSecondsOfHour);
  if (const auto* cost = std::get_if<CostEstimate>(&plan.cost)) {
    training.dollars = times(training.seconds, cost->per_hour.value() / kSecondsOfHour);
  }
  return training;
}

std::string_view name_of(InTime in_time) {
  switch (in_time) {
    case InTime::surely:
      return "surely";
    case InTime::expected:
      return "expected";
    case InTime::no:
      return "no";
  }
  unreachable("a training ends in time or does not");
}

InTime held_to(const WholeTraining& training, Seconds within) {
  if (training.seconds.high <= within.value()) return InTime::surely;
  return training.seconds.expected <= within.value() ? InTime::expected : InTime::no;
}

}  // namespace memest
