// Megatron-core's _ParamAndGradBuffer: parameters laid one behind the other, the last first, in
// buckets whose ends are padded where the optimizer is distributed.
#pragma once

#include <cstdint>
#include <vector>

namespace memest {

struct FlatParameter {
  std::int64_t elements = 0;
  bool own_bucket = false;  ///< an embedding that two pipeline stages share
};

struct FlatRules {
  bool distributed = false;  ///< parameters and buckets are aligned for shards
  std::int64_t ranks = 1;    ///< that the buckets are sharded over
};

/// A part of a parameter.
struct FlatShard {
  std::size_t parameter = 0;
  std::int64_t elements = 0;
};

struct FlatBuffer {
  std::int64_t elements = 0;          ///< with padding
  std::vector<FlatShard> first_rank;  ///< what of it the first rank's optimizer steps, in order
};

/// `parameters` in the order of Module.parameters().
FlatBuffer lay_out(const std::vector<FlatParameter>& parameters, const FlatRules& rules);

}  // namespace memest
