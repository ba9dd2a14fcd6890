// The laws of kernel times, evaluated. Seconds of one call.
#pragma once

#include <cstdint>
#include <optional>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/spec/gpu/time_law.hpp"

namespace memest {

/// The figures of `gpu`'s datasheet that laws need for operands of `operand` (fp32 as TF32 where
/// `tensor_float`). None where a rate, the bandwidth or the count of multiprocessors is not known.
std::optional<Machine> machine_of(const GpuSpec& gpu, DType operand, bool tensor_float = false);

double seconds_of(const TileLaw& law, const MatmulShape& shape, const Machine& machine, Load load);
double seconds_of(const MatmulLaw& law, const MatmulShape& shape, const Machine& machine,
                  Load load);
double seconds_of(const AttentionLaw& law, const AttentionShape& shape, const Machine& machine);
double seconds_of(const StreamLaw& law, const StreamShape& shape, const Machine& machine);
double seconds_of(const CollectiveLaw& law, const CollectiveShape& shape);
double seconds_of(const TransferLaw& law, const TransferShape& shape);

/// 2·m·n·k of each product.
double flops_of(const MatmulShape& shape);
/// FLOPs of 2 products forward, 5 backward; of causal attention the half that is computed.
double flops_of(const AttentionShape& shape);
/// Bytes at whose multiples the rows of operands and result begin, at most 16: 2 of 50,257 columns
/// in bf16.
std::int64_t row_alignment(const MatmulShape& shape);
/// Operands read and the result written, read too where it is added to.
double bytes_of(const MatmulShape& shape);
/// Queries, keys, values and outputs; backward their gradients too.
double bytes_of(const AttentionShape& shape);
/// Times bytes, what each GPU's link carries: 2(n−1)/n of all_reduce, (n−1)/n of the others
/// (nccl-tests, doc/PERFORMANCE.md).
double ring_factor(const CollectiveShape& shape);

/// Seconds by the profile's law for such calls under `load` on `gpu`: its own or a sibling with
/// its own datasheet). None where the profile has no law for them or the datasheet misses a fact.
std::optional<Seconds> predict(const GpuProfile& profile, const GpuSpec& gpu,
                               const KernelShape& shape, Load load);

}  // namespace memest
