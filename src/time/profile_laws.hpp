// A profile's laws as a training step asks for them.
#pragma once

#include <optional>
#include <vector>

#include "memest/spec/gpu.hpp"
#include "memest/spec/gpu_profile.hpp"
#include "memest/spec/kernel_shape.hpp"

namespace memest {

class ProfileLaws {
 public:
  ProfileLaws() = default;
  /// `gpu` outlives this; `share` of a step is what its kernels explain.
  ProfileLaws(const GpuSpec& gpu, double share) : gpu_(&gpu), share_(share) {}

  /// Whether `gpu` has a profile with a law for products of `operand`.
  static bool know(const GpuSpec& gpu, DType operand);

  /// Of all calls together, under sustained load; none where one of them has no law.
  [[nodiscard]] std::optional<double> seconds(const std::vector<KernelShape>& calls) const;

  /// Of the profile's laws of contractions.
  [[nodiscard]] Provenance provenance() const;

 private:
  [[nodiscard]] std::optional<double> seconds(const MatmulShape& shape) const;
  [[nodiscard]] std::optional<double> seconds(const AttentionShape& shape) const;
  template <class Shape>
  [[nodiscard]] std::optional<double> seconds(const Shape&) const {
    return std::nullopt;
  }
  const GpuSpec* gpu_ = nullptr;
  double share_ = 1;
};

}  // namespace memest
