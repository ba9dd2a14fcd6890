// The buckets of Megatron-FSDP (megatron_fsdp/param_and_grad_buffer.py, megatron-core 0.16.1):
// parameters that are gathered and reduced together, laid so that a rank's share ends with a row of
// the widest of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace memest {

struct BucketedParameter {
  std::int64_t elements = 0;
  std::int64_t row_elements = 1;           ///< behind the first dimension
  std::optional<std::uint32_t> unit = {};  ///< none: outside of the layers
  bool in_eight_bits = false;              ///< such weights have buckets of their own
};

struct BucketRules {
  std::int64_t ranks = 1;
  /// Elements with which a bucket outside of units is full, behind the parameter that fills it.
  std::int64_t full = 0;
};

struct UnitBucket {
  /// A parameter's place.
  struct Placed {
    std::size_t parameter = 0;
    std::int64_t begin = 0;
    std::int64_t elements = 0;
  };
  std::optional<std::uint32_t> unit;
  bool in_eight_bits = false;
  std::vector<Placed> placed;  ///< in the order in which they are copied into it
  std::int64_t elements = 0;   ///< with padding
  std::int64_t share = 0;      ///< of a rank

  /// Elements of `placed` that lie in the rank's share.
  [[nodiscard]] std::int64_t in_share(const Placed& one, std::int64_t rank) const;
};

/// `parameters` in the order of Module.parameters(); what stands outside of units comes first where
/// the first parameter does.
std::vector<UnitBucket> unit_buckets(const std::vector<BucketedParameter>& parameters,
                                     const BucketRules& rules);

}  // namespace memest
