// Quantities as people write them. A unit is part of the value: "80 GiB" is a size and "80" is not.
// GiB is 2^30 bytes and GB is 10^9; both are read, and every printed number says which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/units/quantity.hpp"

namespace memest {

/// One unit of a dimension: its spelling and its size in the base unit.
struct Unit {
  std::string_view name;
  double factor;
};

/// The units of each dimension, smallest first.
const std::vector<Unit>& byte_units();  ///< B, kB, KiB, MB, MiB, GB, GiB, TB, TiB
const std::vector<Unit>& time_units();  ///< ns, us, µs, ms, s, min, h, d
const std::vector<Unit>& flop_units();  ///< FLOP, kFLOP, MFLOP, GFLOP, TFLOP, PFLOP, EFLOP, ZFLOP
const std::vector<Unit>& flop_rate_units();  ///< GFLOP/s, TFLOP/s, TOP/s, PFLOP/s
const std::vector<Unit>& byte_rate_units();  ///< MB/s, GB/s, GiB/s, TB/s
const std::vector<Unit>& clock_units();      ///< Hz, kHz, MHz, GHz

enum class UnitError : std::uint8_t { not_a_number, missing_unit, unknown_unit, out_of_range };

/// A number with its unit, or what is wrong with the text. `position` is the byte where the trouble
/// starts.
struct ParsedQuantity {
  std::optional<UnitError> error;
  double value = 0;  ///< in the base unit
  std::size_t position = 0;
};

/// "3.35 TB/s" with byte_rate_units(). Digits are decimal, no sign, no thousands separators, no
/// leading zeros; exactly one blank or none between number and unit.
ParsedQuantity parse_quantity(std::string_view text, const std::vector<Unit>& units);

/// Bytes, exact: "80 GiB", "600 KiB", "79456894976 B", "1.5 GiB"; a fraction of a byte is rounded
/// to the nearest byte.
struct ParsedBytes {
  std::optional<UnitError> error;
  Bytes value;
  std::size_t position = 0;
};
ParsedBytes parse_bytes(std::string_view text);

/// "1,234,567": digits grouped by three.
std::string grouped(Int128 value);

/// "14.96 GiB", "512 B": three to four significant digits in the binary unit that fits.
std::string binary_text(Bytes bytes);

/// "16.06 GB": the same in decimal units.
std::string decimal_text(Bytes bytes);

}  // namespace memest
