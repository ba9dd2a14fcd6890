// A 128-bit signed integer: wide enough for every product of two 64-bit quantities, and for the
// FLOPs of any step.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace memest {

__extension__ using Int128 = __int128;

/// Thrown when an exact quantity leaves its range. The reader bounds its inputs and turns this into
/// a diagnostic.
class OverflowError : public std::overflow_error {
 public:
  using std::overflow_error::overflow_error;
};

/// Throws OverflowError. Out of line, so that what checks stays small enough to be inlined.
[[noreturn]] void fail_overflow(const char* sentence);

/// Sum of two integers of one type; throws OverflowError instead of wrapping.
template <class Int>
constexpr Int checked_add(Int left, Int right) {
  Int result{};
  if (__builtin_add_overflow(left, right, &result)) fail_overflow("integer sum overflows");
  return result;
}

/// Difference of two integers of one type; throws OverflowError instead of wrapping.
template <class Int>
constexpr Int checked_subtract(Int left, Int right) {
  Int result{};
  if (__builtin_sub_overflow(left, right, &result)) fail_overflow("integer difference overflows");
  return result;
}

/// Product of two integers of one type; throws OverflowError instead of wrapping.
template <class Int>
constexpr Int checked_multiply(Int left, Int right) {
  Int result{};
  if (__builtin_mul_overflow(left, right, &result)) fail_overflow("integer product overflows");
  return result;
}

/// `value` in 64 bits; throws OverflowError where it does not fit.
constexpr std::int64_t narrow_to_int64(Int128 value) {
  if (value > std::numeric_limits<std::int64_t>::max() ||
      value < std::numeric_limits<std::int64_t>::min()) {
    fail_overflow("integer does not fit in 64 bits");
  }
  return static_cast<std::int64_t>(value);
}

/// Decimal digits of `value`, without grouping.
std::string to_string(Int128 value);

}  // namespace memest
