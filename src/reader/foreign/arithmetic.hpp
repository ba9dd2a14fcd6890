// Whole-number expressions, as scripts write them: 5 * 8, $((TP * PP)).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace memest {

/// The value of a name within an expression; nothing where it has none.
using ValueOfName = std::function<std::optional<std::int64_t>(std::string_view)>;

/// The value of `expression`: decimal numbers, names (with or without `$`), + - * / // %,
/// parentheses. Nothing where it is another expression, divides by zero or leaves 64 bits.
std::optional<std::int64_t> evaluate_whole(std::string_view expression, const ValueOfName& names);

}  // namespace memest
