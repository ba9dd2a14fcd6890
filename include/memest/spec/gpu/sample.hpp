// A timed kernel call: what a profile is fitted to and judged by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// How long the GPU had been busy: a few calls after a rest, or a training loop's steady state.
/// Power-limited parts run slower in the second.
enum class Load : std::uint8_t { burst, sustained };
/// "burst", "sustained".
std::string_view name_of(Load load);

struct Sample {
  KernelShape shape;
  Seconds seconds;  ///< median of the timed calls
  Load load = Load::burst;
  double clock_mhz = 0;    ///< mean while it ran; 0: not known
  bool throttled = false;  ///< the clock fell while it ran
  std::string gpu;         ///< as its source names it: "H100-SXM5-80GB"
  std::string source;      ///< file or program that measured
  std::string license;     ///< of the source's figures
  std::string file;        ///< that it was read from, without folder; empty where it was measured
  std::int64_t line = 0;   ///< in that file, from 1 on
};

}  // namespace memest
