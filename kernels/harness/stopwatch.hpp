// The ruler's source of times: something that runs calls and says how long they took. A device, the
// host, or in tests a clock that is not real.
#pragma once

#include <cstdint>

#include "memest/units/quantity.hpp"

namespace memest::kernels {

class Stopwatch {
 public:
  Stopwatch() = default;
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch(Stopwatch&&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  Stopwatch& operator=(Stopwatch&&) = delete;
  virtual ~Stopwatch() = default;

  /// The time of `calls` calls back to back.
  virtual Seconds run(std::int64_t calls) = 0;
  /// Lets what is measured cool down.
  virtual void rest(Seconds time) = 0;
  /// The multiprocessors' clock during the last run; 0 where it is not known.
  virtual double clock_mhz() = 0;
};

}  // namespace memest::kernels
