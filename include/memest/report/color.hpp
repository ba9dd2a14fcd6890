// Colours of the terminal, used sparingly: what is wrong is red, what fits is green.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "memest/report/render_options.hpp"

namespace memest {

enum class Paint : std::uint8_t { bold, dim, red, green, yellow, cyan };

/// `text` in a colour, or as it is where `options` has none.
std::string painted(std::string_view text, Paint paint, const RenderOptions& options);

}  // namespace memest
