// The machine code that a GPU runs: NVIDIA's compute capability or AMD's gfx target.
#pragma once

#include <compare>
#include <variant>

namespace memest {

/// CUDA C++ Programming Guide, "Compute Capabilities". 9.0 is {9, 0}.
struct ComputeCapability {
  int major = 0;
  int minor = 0;

  auto operator<=>(const ComputeCapability&) const = default;
};
inline constexpr ComputeCapability kAmpere{8, 0};
inline constexpr ComputeCapability kAda{8, 9};
inline constexpr ComputeCapability kHopper{9, 0};
inline constexpr ComputeCapability kBlackwell{10, 0};

/// LLVM, "User Guide for AMDGPU Backend", "Processors". gfx90a is {9, 0, 10}.
struct GfxTarget {
  int major = 0;
  int minor = 0;
  int stepping = 0;

  auto operator<=>(const GfxTarget&) const = default;
};

/// Nothing where the GPU is not announced or its code is not known.
using GpuTarget = std::variant<std::monostate, ComputeCapability, GfxTarget>;

}  // namespace memest
