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
  /// Elements with which a bucket is full, behind the parameter that fills it; 0: one has all.
  std::int64_t bucket = 0;
};

/// A part of a parameter.
struct FlatShard {
  std::size_t parameter = 0;
  std::int64_t elements = 0;
};

struct FlatBuffer {
  std::int64_t elements = 0;  ///< with padding

  /// The parts that the rank's optimizer steps, in order: an equal share of every bucket, which is
  /// cut where parameters end, and cuts them.
  [[nodiscard]] std::vector<FlatShard> pieces(std::int64_t rank) const;

  /// A parameter's place.
  struct Placed {
    std::size_t index = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  struct Bucket {
    std::int64_t begin = 0;
    std::int64_t share = 0;  ///< elements of a rank
    std::vector<Placed> placed;
  };
  std::vector<Bucket> buckets;
  bool distributed = false;  ///< else every rank steps all of it
};

/// `parameters` in the order of Module.parameters().
FlatBuffer lay_out(const std::vector<FlatParameter>& parameters, const FlatRules& rules);

}  // namespace memest
