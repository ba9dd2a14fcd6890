#include "memest/spec/observables.hpp"

#include "memest/diag/expect.hpp"

namespace memest {

std::string_view name_of(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::ok:
      return "ok";
    case RunOutcome::out_of_memory:
      return "oom";
  }
  unreachable("an outcome beyond the enum");
}

bool Approximation::holds(Metric metric) const {
  const bool of_time =
      metric == Metric::step_seconds || metric == Metric::tokens_per_second_per_gpu;
  return of_time ? time : memory;
}

std::string_view name_of(Metric metric) {
  switch (metric) {
    case Metric::allocated_peak_bytes:
      return "allocated_peak_bytes";
    case Metric::reserved_peak_bytes:
      return "reserved_peak_bytes";
    case Metric::device_bytes:
      return "device_bytes";
    case Metric::step_seconds:
      return "step_seconds";
    case Metric::tokens_per_second_per_gpu:
      return "tokens_per_second_per_gpu";
    case Metric::parameters:
      return "parameters";
    case Metric::trainable_parameters:
      return "trainable_parameters";
    case Metric::buffer_bytes:
      return "buffer_bytes";
    case Metric::saved_bytes:
      return "saved_bytes";
    case Metric::saved_bytes_per_layer:
      return "saved_bytes_per_layer";
    case Metric::forward_flops:
      return "forward_flops";
    case Metric::backward_flops:
      return "backward_flops";
    case Metric::phases:
      return "phases";
    case Metric::outcome:
      return "outcome";
  }
  unreachable("a metric beyond the enum");
}

const std::array<Metric, kMetrics>& all_metrics() {
  static const std::array<Metric, kMetrics> kAll = [] {
    std::array<Metric, kMetrics> metrics{};
    for (std::size_t i = 0; i < kMetrics; ++i) metrics[i] = static_cast<Metric>(i);
    return metrics;
  }();
  return kAll;
}

bool is_exact(Metric metric) {
  switch (metric) {
    case Metric::allocated_peak_bytes:
    case Metric::reserved_peak_bytes:
    case Metric::device_bytes:
    case Metric::step_seconds:
    case Metric::tokens_per_second_per_gpu:
    case Metric::phases:
      return false;
    case Metric::parameters:
    case Metric::trainable_parameters:
    case Metric::buffer_bytes:
    case Metric::saved_bytes:
    case Metric::saved_bytes_per_layer:
    case Metric::forward_flops:
    case Metric::backward_flops:
    case Metric::outcome:
      return true;
  }
  unreachable("a metric beyond the enum");
}

}  // namespace memest
