// Calls on a device, timed by its events.
#pragma once

#include <functional>

#include "kernels/harness/event.hpp"
#include "kernels/harness/graph.hpp"
#include "kernels/harness/nvml.hpp"
#include "kernels/harness/stopwatch.hpp"
#include "kernels/harness/stream.hpp"

namespace memest::kernels {

/// How calls reach the device: captured once and launched together, so that the host is out of the
/// time; or one by one.
enum class Submission { graph, stream };

class DeviceStopwatch : public Stopwatch {
 public:
  /// `enqueue(i)` gives the stream the i-th call of a run. All must outlive the stopwatch.
  DeviceStopwatch(const OwnedStream& stream, const Nvml& nvml, Submission submission,
                  std::function<void(std::int64_t)> enqueue)
      : stream_(stream), nvml_(nvml), submission_(submission), enqueue_(std::move(enqueue)) {}

  Seconds run(std::int64_t calls) override;
  void rest(Seconds time) override;
  double clock_mhz() override { return clock_mhz_; }

 private:
  void submit(std::int64_t calls);

  const OwnedStream& stream_;
  const Nvml& nvml_;
  Submission submission_;
  std::function<void(std::int64_t)> enqueue_;
  Graph graph_;
  std::int64_t captured_ = 0;  // calls in the graph
  Event begin_;
  Event end_;
  double clock_mhz_ = 0;
};

}  // namespace memest::kernels
