// Kinds of kernels and the shapes to measure of each, the most telling first.
#pragma once

#include <cstddef>
#include <vector>

#include "memest/calibrate/sweep.hpp"

namespace memest {

/// The shapes of one kind. `weight` of them are measured in each round over all kinds.
struct SweepKind {
  std::vector<KernelShape> shapes;
  double weight = 1;
};

/// Kinds that a sweep takes in.
struct SweepScope {
  bool every_type = false;  ///< else one type of streams, and 16 bits as bf16 alone
  Seconds longest_call;
};

std::vector<SweepKind> sweep_kinds(const SweepDevice& device, const SweepScope& scope);

/// Seconds that a call may take by the GPU's rates and what kernels usually reach; only good for
/// planning. Nothing where a rate is not known, so that no law could be fitted either.
std::optional<Seconds> expected_call(const GpuSpec& gpu, const KernelShape& shape);

/// Bytes that a call reads and writes; an upper bound of its operands' size.
Bytes footprint(const KernelShape& shape);

}  // namespace memest
