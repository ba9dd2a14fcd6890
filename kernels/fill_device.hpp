// The random inputs of fill.hpp, made on the device.
#pragma once

#include <cstdint>

#include "kernels/call.hpp"
#include "kernels/fill_kind.hpp"

namespace memest::kernels {

struct DeviceFill {
  DType dtype = DType::fp32;
  Fill fill{};
  std::int64_t limit = 0;
  std::uint64_t seed = 0;
  std::int64_t elements = 0;
  void* values = nullptr;
};

void launch_fill(const DeviceFill& call, Stream stream);

}  // namespace memest::kernels
