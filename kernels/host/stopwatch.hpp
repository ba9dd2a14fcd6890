// Calls on the host, timed by its steady clock.
#pragma once

#include <functional>

#include "kernels/harness/stopwatch.hpp"

namespace memest::kernels {

class HostStopwatch : public Stopwatch {
 public:
  /// `call(i)` runs the i-th call since the start.
  explicit HostStopwatch(std::function<void(std::int64_t)> call) : call_(std::move(call)) {}

  Seconds run(std::int64_t calls) override;
  void rest(Seconds time) override;
  double clock_mhz() override { return 0; }

 private:
  std::function<void(std::int64_t)> call_;
  std::int64_t calls_ = 0;
};

}  // namespace memest::kernels
