// Diagnostics as people read them, in the form that editors jump to:
//
//   bad.yaml:3:3: error: unknown key 'hiden_size'
//     3 |   hiden_size: 4096
//       |   ^~~~~~~~~~
//       = hint: did you mean 'hidden_size'?
#pragma once

#include <cstddef>
#include <string>

#include "memest/diag/diagnostic.hpp"
#include "memest/report/render_options.hpp"

namespace memest {

/// How many diagnostics of one text are shown: who mends that many asks again.
inline constexpr std::size_t kMostOfAText = 100;

/// The diagnostics in order, each ended by a newline, and behind them how many of a text are left
/// out. A long source line is cut around the caret; a diagnostic without a source has no excerpt.
/// Nothing of the source reaches the terminal raw.
std::string render(const Diagnostics& diagnostics, const RenderOptions& options);

/// A JSON list of the diagnostics, all of them: `severity`, `message`, `unavailable`, and `text`,
/// as people read it; `hint` where there is one, `file`, `line`, `column` and `length` where a text
/// shows it.
std::string json_of(const Diagnostics& diagnostics);

/// The answer in place of one that is refused: `exit_code`, and the list as `diagnostics`.
std::string refusal_json(int exit_code, const Diagnostics& diagnostics);

/// Whether nothing stands in the way of an answer but what is not available yet.
bool is_unavailable(const Diagnostics& diagnostics);

}  // namespace memest
