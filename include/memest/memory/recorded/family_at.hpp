// A recorded family at a point: its requests there, whether it lies among those that were recorded,
// the largest that fits, and who asks for what at the peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/memory/play_requests.hpp"
#include "memest/spec/recorded/family.hpp"

namespace memest {

/// A request whose formula gives no size: none above 0, or none that a device has.
struct NoSize {
  std::int64_t allocation = 0;
  std::optional<std::int64_t> value;  ///< absent: more than any device has
};

/// The recording at a point. A size that is no whole number is rounded up.
std::variant<AllocatorTrace, NoSize> trace_at(const RecordedFamily& family, const SizePoint& point);

/// How a value of a varied number lies to those that were recorded.
enum class SizeRange : std::uint8_t {
  seen,        ///< within their range, and a multiple of what divides them all
  beyond,      ///< out of their range
  not_aligned  ///< no multiple of what divides them all, as kernels pad sizes to multiples
};
SizeRange range_of(const VariedSize& varied, std::int64_t value);
/// The greatest number that divides all values that were recorded.
std::int64_t common_unit(const VariedSize& varied);

/// Requests that grow in steps, of which the recorded points do not tell how many there are.
struct StepSlack {
  std::int64_t requests = 0;
  Bytes most;                ///< by which one of them may be less than what is played
  std::int64_t rounded = 0;  ///< requests whose formula gives no whole number
};
/// Throws OverflowError. The family gives every request a size at the point.
StepSlack slack_at(const RecordedFamily& family, const SizePoint& point);

/// The device on which requests are played.
struct PlayedDevice {
  AllocatorSettings settings;
  Bytes memory;     ///< of the whole device
  Bytes available;  ///< of it, for the allocator
};

/// The largest value that fits.
struct LargestSize {
  /// Nothing where not even the smallest fits; then `next` is that one.
  std::optional<std::int64_t> value;
  /// The next one, which does not fit; nothing where memory is no limit.
  std::optional<std::int64_t> next;
};

/// The largest multiple of common_unit() of a varied number, by its index, with the others as in
/// `point`. It fits and the next does not: both were played.
std::variant<LargestSize, NoSize> find_largest_size(const RecordedFamily& family, SizePoint point,
                                                    std::size_t varied, const PlayedDevice& device);

/// A place of the program at the peak, and the sum of what it asked for.
struct PlaceFormula {
  std::string place;
  std::int64_t allocations = 0;
  Bytes bytes;  ///< at the point, in blocks of 512 B
  SizeFormula formula;
};

/// At the first moment at which most is allocated at the point, the largest first. Throws
/// OverflowError. The family gives every request a size there.
std::vector<PlaceFormula> peak_formulas(const RecordedFamily& family, const SizePoint& point);

}  // namespace memest
