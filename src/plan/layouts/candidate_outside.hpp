// The bytes that the candidates of a search take outside of their allocators.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "memest/memory/stage_form.hpp"
#include "memest/spec/job.hpp"
#include "plan/layouts/space.hpp"

namespace memest {

/// Asks outside_bytes() once for layouts alike, of a job on one GPU type.
class CandidateOutside {
 public:
  CandidateOutside(const Job& job, const GpuSpec& gpu) : job_(job), gpu_(gpu) {}

  OutsideBytes of(const Parallelism& layout, const BatchChoice& batch);

 private:
  const OutsideBytes& of_shards(std::int64_t shard_ranks);

  const Job& job_;
  const GpuSpec& gpu_;
  std::array<std::optional<OutsideBytes>, 4> known_;  ///< by ranks that share
  std::optional<Bytes> unfollowed_of_sample_;         ///< of one more sequence, at most
};

}  // namespace memest
