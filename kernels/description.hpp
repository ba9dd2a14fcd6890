// A streaming kernel at a shape, without saying where it runs: its operands, the bytes that they
// move, its FLOPs. Whoever runs it allocates the operands, fills the inputs and hands them over in
// this order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/fill_kind.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/units/quantity.hpp"

namespace memest::kernels {

enum class Access : std::uint8_t {
  reads,
  writes,
  updates,  ///< read and written
  scratch   ///< of the device alone; holds nothing before or after, and is not counted
};

struct Operand {
  std::string_view name;
  DType dtype = DType::fp32;
  std::int64_t elements = 0;
  Access access = Access::reads;
  Fill fill = Fill::normal;
  std::int64_t limit = 0;     ///< of Fill::index
  std::int64_t touched = -1;  ///< elements that a call reads or writes, if not all
};

/// Whether a call leaves something in it to be compared.
constexpr bool is_result(const Operand& operand) {
  return operand.access == Access::writes || operand.access == Access::updates;
}

struct Description {
  std::vector<Operand> operands;
  std::int64_t flops = 0;
};

/// Bytes that a call must read and write, each once.
Bytes traffic(const Description& description);

/// Difference allowed from the double-precision reference, over the larger of the
/// reference's magnitude and its root mean square: half a unit in the last place of the type, and
/// for sums in fp32 the rounding of their terms.
double tolerance(DType result);

/// The largest such difference; infinite where a result is not a number. Spans of equal length.
double largest_error(std::span<const double> result, std::span<const double> reference);

/// The root mean square of the differences over that of the reference; infinite where a result is
/// not a number. Spans of equal length.
double mean_error(std::span<const double> result, std::span<const double> reference);

/// A kernel of a row operation by op and pass: its description at a shape, and the same arithmetic
/// as plain loops, in double (the reference) and in float (what the host backend times).
struct StreamKernel {
  StreamOp op;
  KernelPass pass;
  Description (*describe)(const StreamShape&);
  void (*reference)(const StreamShape&, double* const* operands);
  void (*loops)(const StreamShape&, float* const* operands);
};

/// In the order of StreamOp; an op with a backward has two rows.
std::span<const StreamKernel> stream_kernels();

/// Null where there is none.
const StreamKernel* find_stream_kernel(StreamOp op, KernelPass pass);

}  // namespace memest::kernels
