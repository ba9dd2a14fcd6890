// The terminal or file at the other end of a stream, as the environment and the terminal tell.
#pragma once

#include "cli/arguments.hpp"
#include "memest/report/render_options.hpp"

namespace memest {

enum class StandardStream { out, err };

bool is_terminal(StandardStream stream);

/// Colours where the stream is a terminal that knows them and NO_COLOR is not set, or as `when`
/// says; UTF-8 where the locale of the environment says so. As wide as the terminal, or as COLUMNS
/// says where there is none, from 60 to 160 columns.
RenderOptions render_options_of(StandardStream stream, ColorWhen when);

}  // namespace memest
