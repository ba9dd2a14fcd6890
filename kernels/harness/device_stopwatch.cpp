#include "kernels/harness/device_stopwatch.hpp"

#include <chrono>
#include <thread>

namespace memest::kernels {

Seconds DeviceStopwatch::run(std::int64_t calls) {
  if (submission_ == Submission::graph && captured_ != calls) {
    if (captured_ == 0) enqueue_(0);  // loads the kernel, which a capture may not allow
    stream_.synchronize();
    graph_ = Graph(stream_.handle(), [&] {
      for (std::int64_t call = 0; call < calls; ++call) enqueue_(call);
    });
    captured_ = calls;
    stream_.synchronize();
  }
  // Events stand in the stream, so the time is the device's: a host that submits late only delays
  // both.
  begin_.record(stream_.handle());
  submit(calls);
  end_.record(stream_.handle());
  clock_mhz_ = nvml_.clock_mhz();  // while the device works
  end_.synchronize();
  return end_.since(begin_);
}

void DeviceStopwatch::submit(std::int64_t calls) {
  switch (submission_) {
    // One launch for all calls: kernels of a few microseconds follow each other without the host's
    // gaps.
    case Submission::graph:
      return graph_.launch(stream_.handle());
    case Submission::stream:
      for (std::int64_t call = 0; call < calls; ++call) enqueue_(call);
      return;
  }
}

void DeviceStopwatch::rest(Seconds time) {
  std::this_thread::sleep_for(std::chrono::duration<double>(time.value()));
}

}  // namespace memest::kernels
