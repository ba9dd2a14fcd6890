#include "kernels/host/stopwatch.hpp"

#include <chrono>
#include <thread>

namespace memest::kernels {

Seconds HostStopwatch::run(std::int64_t calls) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t call = 0; call < calls; ++call) call_(calls_++);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return Seconds(time.count());
}

void HostStopwatch::rest(Seconds time) {
  std::this_thread::sleep_for(std::chrono::duration<double>(time.value()));
}

}  // namespace memest::kernels
