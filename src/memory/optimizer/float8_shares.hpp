// Shares of float8 weights on their way into an all-gather (torchao 0.16, float8/fsdp_utils.py):
// every rank casts its own with the scale of the whole weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/dtype.hpp"
#include "memory/timeline/held_storage.hpp"

namespace memest {

class Float8Shares {
 public:
  /// Allocates so many bytes in the stream of the all-gather.
  using Make = std::function<HeldStorage(UnitTensor, std::int64_t)>;
  /// The so many-th weight in fp8 of a unit.
  struct Place {
    std::size_t unit = 0;
    std::size_t weight = 0;
  };

  /// Shares of `type`. `device` is none where its kernels are not known.
  Float8Shares(DType type, std::optional<LaunchDevice> device) : type_(type), device_(device) {}

  /// The weight that a block uses as ForwardOrder::parameters()[use].
  void place(std::uint32_t use, Place place) { places_[use] = place; }

  /// WeightWithDynamicFloat8CastTensor.fsdp_pre_all_gather: the unit's next weight's share in fp8.
  [[nodiscard]] HeldStorage cast(std::size_t unit, std::int64_t elements, const Make& make);
  /// fsdp_post_all_gather: the unit's gathered weights have the scales that came with them; those
  /// of the gather before go.
  void take_scales(std::size_t unit);
  /// kNoStorage: the weight is not in fp8.
  [[nodiscard]] StorageId scale_of(std::uint32_t use) const;

 private:
  struct Scales {
    HeldVector taken;
    HeldVector coming;
  };

  [[nodiscard]] HeldStorage largest(std::int64_t elements, const Make& make) const;
  [[nodiscard]] HeldStorage scale(std::int64_t elements, const Make& make) const;
  [[nodiscard]] HeldStorage in_fp8(std::int64_t elements, const Make& make) const;

  DType type_;
  std::optional<LaunchDevice> device_;
  std::unordered_map<std::size_t, Scales> scales_;  // by unit
  std::unordered_map<std::uint32_t, Place> places_;
};

}  // namespace memest
