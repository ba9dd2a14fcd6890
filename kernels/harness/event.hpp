// A point in the work of a stream, with the time at which it was reached.
#pragma once

#include "kernels/harness/check.hpp"
#include "memest/units/quantity.hpp"

namespace memest::kernels {

class Event {
 public:
  Event() { check(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  Event(Event&&) = delete;
  Event& operator=(const Event&) = delete;
  Event& operator=(Event&&) = delete;
  ~Event() { cudaEventDestroy(event_); }

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream)); }
  void synchronize() const { check(cudaEventSynchronize(event_)); }
  /// Both reached. CUDA counts milliseconds, to about half a microsecond.
  [[nodiscard]] Seconds since(const Event& earlier) const {
    float elapsed_ms = 0;
    check(cudaEventElapsedTime(&elapsed_ms, earlier.event_, event_));
    return Seconds(static_cast<double>(elapsed_ms) / 1e3);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace memest::kernels
