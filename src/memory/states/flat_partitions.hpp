// DeepSpeed's ZeRO 1 and 2: all that is trained lies in one flat tensor in the order of
// Module.parameters(), padded and cut into equal partitions, one a rank. A rank steps its partition
// and keeps whole the gradients of every parameter that reaches into it.
// Source: deepspeed/runtime/zero/stage_1_and_2.py, DeepSpeed 0.19.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memest/spec/job.hpp"
#include "memest/units/int128.hpp"

namespace memest {

/// DeepSpeed takes gradient norms in fp64 (deepspeed/runtime/zero/utils.py, get_norm_dtype).
inline constexpr DType kDeepSpeedNormType = DType::fp64;

/// Elements of a rank's piece of a parameter under ZeRO 3, which pads the last ranks'
/// (_aligned_size in deepspeed/runtime/zero/partition_parameters.py): 10 elements over 4 ranks are
/// pieces of 3.
constexpr std::int64_t piece_of(std::int64_t elements, std::int64_t ranks) {
  return checked_add(elements, ranks - 1) / ranks;
}

class FlatPartitions {
 public:
  /// Parameters of `elements` each, over `ranks`.
  FlatPartitions(std::vector<std::int64_t> elements, std::int64_t ranks);

  /// Elements of the flat tensor, and of a rank's partition of it.
  [[nodiscard]] std::int64_t elements() const { return partition_ * ranks_; }
  [[nodiscard]] std::int64_t partition() const { return partition_; }
  [[nodiscard]] std::int64_t elements_of(std::size_t parameter) const {
    return elements_[parameter];
  }

  /// The partitions that the parameter reaches into: ranks [first, last].
  [[nodiscard]] std::int64_t first_rank(std::size_t parameter) const;
  [[nodiscard]] std::int64_t last_rank(std::size_t parameter) const;
  [[nodiscard]] bool reaches(std::size_t parameter, std::int64_t rank) const {
    return first_rank(parameter) <= rank && rank <= last_rank(parameter);
  }
  /// The first parameter that reaches into the rank's partition, or that lies behind it; how many
  /// there are where none does.
  [[nodiscard]] std::size_t first_of(std::int64_t rank) const;
  /// Elements of the parameter in the rank's partition, which it reaches into.
  [[nodiscard]] std::int64_t piece(std::size_t parameter, std::int64_t rank) const;
  /// Elements in the rank's partition of each parameter that reaches into it, in order.
  [[nodiscard]] std::vector<std::int64_t> pieces(std::int64_t rank) const;
  /// Elements of the largest parameter; 0 where there is none.
  [[nodiscard]] std::int64_t largest() const;
  /// Elements of all parameters that reach into the rank's partition.
  [[nodiscard]] std::int64_t reaching(std::int64_t rank) const;

 private:
  std::vector<std::int64_t> elements_;
  std::vector<std::int64_t> begins_;
  std::int64_t ranks_;
  std::int64_t partition_ = 0;
};

/// Whose memory the formulas have: in stage 2 the last rank's, whose partition's gradients are the
/// first to come; else the first's. Replays look at the others too (data_ranks.hpp).
std::int64_t deepspeed_rank(const Job& job);

/// ZeRO 1 with 16-bit weights and gradients summed in fp32 is BF16_Optimizer: the sums are of all
/// gradients, beside the gradients, and there is no bucket.
bool sums_whole_gradients(const Job& job);

}  // namespace memest
