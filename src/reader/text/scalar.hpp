// Strict reading of scalars: what a text says as a number, a flag or a quantity, or nothing. YAML's
// own guesses (010 as octal, `yes` as true, .nan) have no part in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/gpu/gpu_target.hpp"
#include "memest/units/quantity.hpp"
#include "memest/units/text.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/value.hpp"

namespace memest {

// Null-safe: nothing where there is no value, or one that is not of the kind. check_table has said
// so before.
std::optional<bool> as_flag(const Value* value);
std::optional<std::int64_t> as_count(const Value* value);
std::optional<double> as_number(const Value* value);
std::optional<std::string> as_text(const Value* value);
std::optional<Bytes> as_bytes(const Value* value);
/// "9.0" is a compute capability, "gfx90a" a gfx target of hexadecimal minor and stepping.
std::optional<GpuTarget> as_target(const Value* value);
/// In the base unit: B, s, FLOP, USD, USD/h; a share as a fraction.
std::optional<double> as_quantity(const Value* value, Dimension dimension);

/// A decimal integer: digits after an optional minus, no leading zeros, within 64 bits.
std::optional<std::int64_t> integer_of(std::string_view text);

/// A finite decimal number: 1, -0.5, 2.5e-4.
std::optional<double> number_of(std::string_view text);

/// "a size", "80 GiB or 80 GB", and the same for a number whose unit is missing: "GiB", "GB".
struct DimensionWords {
  std::string_view noun;
  std::string_view example;
  std::string_view usual_unit;
  std::string_view other_unit = {};
};
DimensionWords words_of(Dimension dimension);
const std::vector<Unit>& units_in(Dimension dimension);

/// `text` in single quotes, cut where it is long.
std::string quote(std::string_view text);

/// "a, b, c".
std::string joined(const std::vector<std::string>& words);

Diagnostic error_at(const SourceSpan& span, std::string message, std::string hint = {});

/// "`what` is not available yet": a refusal by name, no mistake.
Diagnostic unavailable_at(const SourceSpan& span, const std::string& what, std::string hint);

/// "did you mean 'x'?" or nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace memest
